// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The request is invalid. Its invalid fields are listed in the error. */
public final class InvalidRequestException extends EaselException {
  private static final long serialVersionUID = 1;

  InvalidRequestException(Failure failure) {
    super(failure);
  }
}
