// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The catalog may or may not have accepted the order. Keep its idempotency key. */
public final class OutcomeUnknownException extends EaselException {
  private static final long serialVersionUID = 1;

  OutcomeUnknownException(Failure failure) {
    super(failure);
  }
}
