// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The idempotency key was used for another order. */
public final class IdempotencyKeyReusedException extends EaselException {
  private static final long serialVersionUID = 1;

  IdempotencyKeyReusedException(Failure failure) {
    super(failure);
  }
}
