// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** Easel or the catalog is temporarily unavailable. */
public final class UnavailableException extends EaselException {
  private static final long serialVersionUID = 1;

  UnavailableException(Failure failure) {
    super(failure);
  }
}
