package io.github.easelgrpc.easel;

import java.util.Optional;

/** The call's timeout has passed. */
public final class TimeoutException extends EaselException {
  private static final long serialVersionUID = 1;
  private final transient Heartbeat last;

  TimeoutException(Failure failure, Heartbeat last) {
    super(failure.asLast());
    this.last = last;
  }

  /** Returns the last heartbeat of a watch, if there was one. */
  public Optional<Heartbeat> lastHeartbeat() {
    return Optional.ofNullable(last);
  }

  @Override
  public String getMessage() {
    return "timed out; last error: " + super.getMessage() + (last == null || last.lastError().isEmpty() ? "" : "; last heartbeat: " + last.lastError());
  }
}
