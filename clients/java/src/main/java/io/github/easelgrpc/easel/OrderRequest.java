package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.CreateGenerationRequest;
import java.time.Instant;
import java.util.Map;
import java.util.UUID;

/** An order that has not been sent. {@link #send} or {@link #run} sends it. */
public final class OrderRequest {
  private final Easel easel;
  private final CreateGenerationRequest.Builder request;

  OrderRequest(Easel easel, CreateGenerationRequest.Builder request) {
    this.easel = easel;
    this.request = request;
  }

  /**
   * Sets the idempotency key: 1 to 255 visible ASCII characters. Store the key before you order. If you send the same order
   * again with the same key, you get the same render and are not charged again. If no key is set, the client creates a key.
   * Before it sends the order, it passes the created key to the function from {@link EaselBuilder#onKey}, or logs the key if
   * there is no such function.
   */
  public OrderRequest key(String key) {
    if (key.isEmpty()) {
      throw new IllegalArgumentException("the idempotency key must not be empty; do not call key() if the client should create a key");
    }
    request.setIdempotencyKey(key);
    return this;
  }

  /** Sets the maximum price in euro cents. If the price is higher, nothing is ordered. */
  public OrderRequest maxCostCents(long cents) {
    request.setMaxCostCents(cents);
    return this;
  }

  /** Sets the time after which the order is not sent to the catalog. The client's clock is not used. */
  public OrderRequest expire(Instant time) {
    request.setExpireTime(Times.timestamp(time));
    return this;
  }

  /** Adds a label to the order. Lists can be filtered by labels, and usage reports can be grouped by a label. */
  public OrderRequest label(String name, String value) {
    request.putLabels(name, value);
    return this;
  }

  /** Adds labels to the order. */
  public OrderRequest labels(Map<String, String> labels) {
    request.putAllLabels(labels);
    return this;
  }

  /**
   * Places the order, and retries with the same key until the outcome is known. If it throws an exception whose
   * {@link EaselException#orderOutcome} is UNKNOWN, the order may exist. Keep the key and send the order again with the same
   * key.
   */
  public Order send() {
    if (request.getIdempotencyKey().isEmpty()) {
      request.setIdempotencyKey(UUID.randomUUID().toString());
      easel.hooks().key(request.getIdempotencyKey());
    }
    var key = request.getIdempotencyKey();
    var attempts = new Attempts(easel, Attempts.Kind.ORDER, "CreateGeneration", key, "");
    var placed = easel.call(attempts, () -> attempts.on(easel.generations()).createGeneration(request.build()));
    return new Order(new Render(placed.getGeneration(), null), key, placed.getReplayed());
  }

  /** Places the order, waits until the render is finished, and returns the render. If the render did not succeed, it throws a {@link RenderFailedException}. */
  public Render run() {
    var order = send();
    var render = Easel.last(easel.watch(order.generationId(), order.key(), new WatchOptions()));
    if (render.state() != RenderState.SUCCEEDED) {
      throw new RenderFailedException(render, order.key());
    }
    return render;
  }
}
