package io.github.easelgrpc.easel;

import io.grpc.Status;

/** Downloaded bytes are damaged or missing. */
public final class DamagedException extends EaselException {
  private static final long serialVersionUID = 1;

  DamagedException() {
    super(Failure.of(Status.Code.DATA_LOSS, "downloaded bytes are damaged or missing", Failure.Subject.NONE));
  }
}
