// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The API key has reached its daily cap in the catalog. */
public final class DailyCapReachedException extends EaselException {
  private static final long serialVersionUID = 1;

  DailyCapReachedException(Failure failure) {
    super(failure);
  }
}
