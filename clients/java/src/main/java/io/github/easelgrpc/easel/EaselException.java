package io.github.easelgrpc.easel;

import com.google.rpc.BadRequest;
import com.google.rpc.RetryInfo;
import io.github.easelgrpc.easel.v1.ErrorReason;
import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** The base of all that a call fails with. A subclass for each thing that a program does something else about. */
public class EaselException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final transient Failure failure;

  EaselException(Failure failure) {
    super(failure.message(), failure.cause);
    this.failure = failure;
  }

  /** What is known of an order that has failed: see CreateGeneration. */
  public enum OrderOutcome { UNKNOWN, NOT_PLACED_BY_THIS_CALL, NOT_PLACED }

  /** Why the call has failed: ERROR_REASON_UNSPECIFIED where that is not of Easel, or of a newer one. */
  public ErrorReason reason() {
    var value = ErrorReason.getDescriptor().findValueByName(failure.info.getReason());
    return value == null ? ErrorReason.ERROR_REASON_UNSPECIFIED : ErrorReason.valueOf(value);
  }

  /** The gRPC code. */
  public Status.Code code() {
    return failure.code();
  }

  /** Whether the same call again may mend the error. The calls of {@link Easel} have done so as long as they were let. */
  public boolean isRetryable() {
    return failure.isRetryable();
  }

  Failure failure() {
    return failure;
  }

  /** What is known of an order that has failed. Any error may leave it UNKNOWN: then the order may exist, and its key is to be kept. */
  public OrderOutcome orderOutcome() {
    switch (failure.metadata("order_outcome")) {
      case "not_placed":
        return OrderOutcome.NOT_PLACED;
      case "not_placed_by_this_call":
        return OrderOutcome.NOT_PLACED_BY_THIS_CALL;
      default:
        return OrderOutcome.UNKNOWN;
    }
  }

  /** The idempotency key of the order that has failed. */
  public Optional<String> idempotencyKey() {
    return Optional.of(failure.key).filter(key -> !key.isEmpty());
  }

  /** How long to wait before the next attempt, where the server has said so. */
  public Optional<Duration> retryAfter() {
    return failure.detail(RetryInfo.class).map(info -> Times.duration(info.getRetryDelay()));
  }

  /** When a budget is reset. */
  public Optional<Instant> resetTime() {
    return Optional.of(failure.metadata("reset_time")).filter(text -> !text.isEmpty()).map(Instant::parse);
  }

  /** What a budget has left. */
  public OptionalLong remainingCents() {
    return failure.cents("remaining_cents");
  }

  /** The price of an order that was above a limit or a budget. */
  public OptionalLong priceCents() {
    return failure.cents("price_cents");
  }

  /** What is wrong with each field of the request. */
  public Map<String, String> fieldViolations() {
    var fields = new LinkedHashMap<String, String>();
    failure.detail(BadRequest.class).ifPresent(bad -> bad.getFieldViolationsList().forEach(v -> fields.put(v.getField(), v.getDescription())));
    return fields;
  }

  /** The error as it was sent, with all of its details. */
  public com.google.rpc.Status raw() {
    return failure.status;
  }
}
