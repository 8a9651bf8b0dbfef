// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The price is above the order's maximum price. */
public final class PriceAboveLimitException extends EaselException {
  private static final long serialVersionUID = 1;

  PriceAboveLimitException(Failure failure) {
    super(failure);
  }
}
