// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The file has changed since the download started. */
public final class ContentChangedException extends EaselException {
  private static final long serialVersionUID = 1;

  ContentChangedException(Failure failure) {
    super(failure);
  }
}
