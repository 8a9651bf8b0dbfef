package io.github.easelgrpc.easel;

/** An accepted order. */
public final class Order {
  private final Render render;
  private final String key;
  private final boolean replayed;

  Order(Render render, String key, boolean replayed) {
    this.render = render;
    this.key = key;
    this.replayed = replayed;
  }

  /** Returns the ID of the render. */
  public String generationId() {
    return render.generationId();
  }

  /** Returns the render. If {@link #replayed} is true, this is the current state of the earlier order's render. */
  public Render render() {
    return render;
  }

  /** Returns the idempotency key. */
  public String key() {
    return key;
  }

  /** Returns whether an earlier order used the key. If so, the render belongs to that order, and this call ordered nothing. */
  public boolean replayed() {
    return replayed;
  }

  @Override
  public String toString() {
    return render + (replayed ? " (replayed, idempotency key " : " (idempotency key ") + key + ")";
  }
}
