package io.github.easelgrpc.easel;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/**
 * A message that a watch receives while there are no updates.
 *
 * @param condition the condition of the catalog
 * @param lastError the error of the last failed poll of the catalog; empty after a successful poll
 * @param typicalRemaining the estimated remaining time of the render
 */
public record Heartbeat(
    Optional<Instant> observeTime, Optional<Instant> nextPollTime, Condition condition, int consecutivePollFailures, String lastError,
    Optional<Duration> typicalRemaining, io.github.easelgrpc.easel.v1.Heartbeat raw) {

  /** The condition of the catalog, as observed by the server. */
  public enum Condition {
    HEALTHY, THROTTLED, UNREACHABLE, CREDENTIAL_REJECTED,
    /** A condition that this version of the client does not know. */
    UNKNOWN
  }

  static Heartbeat of(io.github.easelgrpc.easel.v1.Heartbeat raw) {
    return new Heartbeat(
        raw.hasObserveTime() ? Optional.of(Times.instant(raw.getObserveTime())) : Optional.empty(),
        raw.hasNextPollTime() ? Optional.of(Times.instant(raw.getNextPollTime())) : Optional.empty(),
        Names.of(raw.getUpstreamCondition(), "UPSTREAM_CONDITION_", Condition.UNKNOWN), raw.getConsecutivePollFailures(), raw.getLastError(),
        raw.hasTypicalRemaining() ? Optional.of(Times.duration(raw.getTypicalRemaining())) : Optional.empty(), raw);
  }
}
