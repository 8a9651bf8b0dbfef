// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The order may or may not exist. Keep its idempotency key, and send the order again with the same key. */
public final class OutcomeUnknownException extends EaselException {
  private static final long serialVersionUID = 1;

  OutcomeUnknownException(Failure failure) {
    super(failure);
  }
}
