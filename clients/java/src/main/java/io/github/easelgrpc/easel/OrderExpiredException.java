// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The order's expire time has passed, so Easel does not send the order to the catalog. If the outcome is unknown, an earlier attempt may have placed the order. */
public final class OrderExpiredException extends EaselException {
  private static final long serialVersionUID = 1;

  OrderExpiredException(Failure failure) {
    super(failure);
  }
}
