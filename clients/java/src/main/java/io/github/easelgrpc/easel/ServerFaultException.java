// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The server, or its configuration, has to be fixed. */
public final class ServerFaultException extends EaselException {
  private static final long serialVersionUID = 1;

  ServerFaultException(Failure failure) {
    super(failure);
  }
}
