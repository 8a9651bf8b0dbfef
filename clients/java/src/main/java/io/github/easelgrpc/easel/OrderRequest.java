package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.CreateGenerationRequest;
import java.util.Map;
import java.util.UUID;

/** An order that is yet to be sent. */
public final class OrderRequest {
  private final Easel easel;
  private final CreateGenerationRequest.Builder request;

  OrderRequest(Easel easel, CreateGenerationRequest.Builder request) {
    this.easel = easel;
    this.request = request;
  }

  /**
   * Names the order: up to 255 visible ASCII characters, which were written down before. The same key with the same order is the same
   * render, and is paid once. Without one a key is made, and passed to {@link EaselBuilder#onKey} or the log before it is sent.
   */
  public OrderRequest key(String key) {
    if (key.isEmpty()) {
      throw new IllegalArgumentException("an idempotency key needs at least one character");
    }
    request.setIdempotencyKey(key);
    return this;
  }

  /** Refuses a higher price. */
  public OrderRequest maxCostCents(long cents) {
    request.setMaxCostCents(cents);
    return this;
  }

  /** Labels the order, for lists and reports. */
  public OrderRequest label(String name, String value) {
    request.putLabels(name, value);
    return this;
  }

  /** Labels the order. */
  public OrderRequest labels(Map<String, String> labels) {
    request.putAllLabels(labels);
    return this;
  }

  /**
   * Places the order, and sends it again with the same key until its outcome is known. Where {@link EaselException#orderOutcome} of the
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

  /** Places the order, watches it until it has ended, and gives the render: its text, or what to download. */
  public Render run() {
    var order = send();
    var render = Easel.last(easel.watch(order.generationId(), order.key(), new WatchOptions()));
    if (render.state() != RenderState.SUCCEEDED) {
      throw new RenderFailedException(render, order.key());
    }
    return render;
  }
}
