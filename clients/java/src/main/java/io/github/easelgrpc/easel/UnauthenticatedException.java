// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The API key or token is missing or rejected. */
public final class UnauthenticatedException extends EaselException {
  private static final long serialVersionUID = 1;

  UnauthenticatedException(Failure failure) {
    super(failure);
  }
}
