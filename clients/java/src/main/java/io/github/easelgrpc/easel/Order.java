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

  /** Returns the generation ID of the render. */
  public String generationId() {
    return render.generationId();
  }

  /** Returns the render. If the render was ordered before, this is its current state. */
  public Render render() {
    return render;
  }

  /** Returns the idempotency key. */
  public String key() {
    return key;
  }

  /** Returns whether the key was used before. If so, the render belongs to the earlier order, and this call ordered nothing. */
  public boolean replayed() {
    return replayed;
  }

  @Override
  public String toString() {
    return render + (replayed ? " (replayed, idempotency key " : " (idempotency key ") + key + ")";
  }
}
