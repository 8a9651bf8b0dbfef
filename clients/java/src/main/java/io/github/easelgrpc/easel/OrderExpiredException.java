// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The order's expire time has passed, so the order is no longer sent. */
public final class OrderExpiredException extends EaselException {
  private static final long serialVersionUID = 1;

  OrderExpiredException(Failure failure) {
    super(failure);
  }
}
