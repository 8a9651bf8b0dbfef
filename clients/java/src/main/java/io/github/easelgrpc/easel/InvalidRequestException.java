// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The request violates a rule. Fix the request. */
public final class InvalidRequestException extends EaselException {
  private static final long serialVersionUID = 1;

  InvalidRequestException(Failure failure) {
    super(failure);
  }
}
