// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The render has no file and never will have one. */
public final class NoContentException extends EaselException {
  private static final long serialVersionUID = 1;

  NoContentException(Failure failure) {
    super(failure);
  }
}
