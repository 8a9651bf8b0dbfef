// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** There is no such render or model for this caller. */
public final class NotFoundException extends EaselException {
  private static final long serialVersionUID = 1;

  NotFoundException(Failure failure) {
    super(failure);
  }
}
