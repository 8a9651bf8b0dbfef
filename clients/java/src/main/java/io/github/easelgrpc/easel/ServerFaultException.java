// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The call failed for a reason that the server's operator must fix. */
public final class ServerFaultException extends EaselException {
  private static final long serialVersionUID = 1;

  ServerFaultException(Failure failure) {
    super(failure);
  }
}
