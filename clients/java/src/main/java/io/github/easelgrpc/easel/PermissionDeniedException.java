// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The caller does not have permission for this call. */
public final class PermissionDeniedException extends EaselException {
  private static final long serialVersionUID = 1;

  PermissionDeniedException(Failure failure) {
    super(failure);
  }
}
