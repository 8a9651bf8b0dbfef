// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The render or model does not exist, or this caller may not see it. */
public final class NotFoundException extends EaselException {
  private static final long serialVersionUID = 1;

  NotFoundException(Failure failure) {
    super(failure);
  }
}
