package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.CreateGenerationRequest;
import java.util.Map;
import java.util.UUID;

/** An order that has not been sent yet. */
public final class OrderRequest {
  private final Easel easel;
  private final CreateGenerationRequest.Builder request;

  OrderRequest(Easel easel, CreateGenerationRequest.Builder request) {
    this.easel = easel;
    this.request = request;
  }

  /**
   * Sets the idempotency key: up to 255 visible ASCII characters. Store it first: the same order with the same key is the same
   * render, and is paid once. By default, a new key is passed to {@link EaselBuilder#onKey} or the log before the order is sent.
   */
  public OrderRequest key(String key) {
    if (key.isEmpty()) {
      throw new IllegalArgumentException("an idempotency key needs at least one character");
    }
    request.setIdempotencyKey(key);
    return this;
  }

  /** Sets the maximum price. */
  public OrderRequest maxCostCents(long cents) {
    request.setMaxCostCents(cents);
    return this;
  }

  /** Adds a label to the order, for lists and reports. */
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
   * Places the order, and retries with the same key until the outcome is known. If the {@link EaselException#orderOutcome} of an
   * exception is UNKNOWN, the order may exist: keep the key.
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

  /** Places the order, waits until the render is finished, and returns the render. */
  public Render run() {
    var order = send();
    var render = Easel.last(easel.watch(order.generationId(), order.key(), new WatchOptions()));
    if (render.state() != RenderState.SUCCEEDED) {
      throw new RenderFailedException(render, order.key());
    }
    return render;
  }
}
