package io.github.easelgrpc.easel;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/**
 * Why a watch is quiet.
 *
 * @param condition how the catalog answers Easel
 * @param typicalRemaining how much longer such a render typically takes
 */
public record Heartbeat(
    Optional<Instant> observeTime, Optional<Instant> nextPollTime, Condition condition, int consecutivePollFailures, String lastError,
    Optional<Duration> typicalRemaining, io.github.easelgrpc.easel.v1.Heartbeat raw) {

  /** How the catalog answers. */
  public enum Condition {
    HEALTHY, THROTTLED, UNREACHABLE, CREDENTIAL_REJECTED,
    /** A condition of a newer server. */
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
