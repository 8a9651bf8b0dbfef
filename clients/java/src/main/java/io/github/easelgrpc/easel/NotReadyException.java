// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The render is not finished, or its result does not exist yet. */
public final class NotReadyException extends EaselException {
  private static final long serialVersionUID = 1;

  NotReadyException(Failure failure) {
    super(failure);
  }
}
