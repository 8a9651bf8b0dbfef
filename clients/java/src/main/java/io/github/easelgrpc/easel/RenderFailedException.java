package io.github.easelgrpc.easel;

import io.grpc.Status;

/** The render is finished but did not succeed. */
public final class RenderFailedException extends EaselException {
  private static final long serialVersionUID = 1;
  private final transient Render render;

  RenderFailedException(Render render, String key) {
    super(Failure.of(Status.Code.FAILED_PRECONDITION, render.state() + " " + render.failureMessage(),
        new Failure.Subject(key, render.generationId(), null)));
    this.render = render;
  }

  /** Returns the final state of the render. */
  public Render render() {
    return render;
  }
}
