package io.github.easelgrpc.easel;

/** An order that was placed. */
public final class Order {
  private final Render render;
  private final String key;
  private final boolean replayed;

  Order(Render render, String key, boolean replayed) {
    this.render = render;
    this.key = key;
    this.replayed = replayed;
  }

  /** The id of its render. */
  public String generationId() {
    return render.generationId();
  }

  /** Its render as it was when it was ordered, or as it is where it was ordered before. */
  public Render render() {
    return render;
  }

  /** Its idempotency key. */
  public String key() {
    return key;
  }

  /** Whether the key had been used: the render is that of the earlier order, and nothing was ordered now. */
  public boolean replayed() {
    return replayed;
  }
}
