package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.Generation;

/** A render that was paid and came to nothing, or was deleted. */
public final class FailedException extends Exception {
  private static final long serialVersionUID = 1;
  private final transient Generation generation;

  FailedException(Generation generation) {
    super(generation.getState() + ": " + generation.getFailureMessage());
    this.generation = generation;
  }

  /** The render as it ended. */
  public Generation getGeneration() {
    return generation;
  }
}
