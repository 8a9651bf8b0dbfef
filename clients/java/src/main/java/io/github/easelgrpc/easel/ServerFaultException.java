// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The call failed for a problem that only the server's operator can fix. */
public final class ServerFaultException extends EaselException {
  private static final long serialVersionUID = 1;

  ServerFaultException(Failure failure) {
    super(failure);
  }
}
