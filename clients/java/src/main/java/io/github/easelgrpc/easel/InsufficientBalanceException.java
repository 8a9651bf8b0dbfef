// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The balance does not cover the price. */
public final class InsufficientBalanceException extends EaselException {
  private static final long serialVersionUID = 1;

  InsufficientBalanceException(Failure failure) {
    super(failure);
  }
}
