package io.github.easelgrpc.easel;

import com.google.rpc.BadRequest;
import com.google.rpc.RequestInfo;
import io.github.easelgrpc.easel.v1.ErrorReason;
import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;
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

  /** The name of the reason, that of a newer server too, or "". */
  public String reasonName() {
    return failure.info.getReason();
  }

  /** The gRPC code. */
  public Status.Code code() {
    return failure.code();
  }

  /**
   * Whether the same call again may mend the error. The calls of {@link Easel} have done so as long as they were let: where the caller
   * has ended them, it is false.
   */
  public boolean isRetryable() {
    return failure.isRetryable();
  }

  Failure failure() {
    return failure;
  }

  /**
   * The outcome of an order after all attempts, empty for other calls. If it is UNKNOWN, the order may exist: keep its key.
   */
  public Optional<OrderOutcome> orderOutcome() {
    return Optional.ofNullable(failure.subject.outcome);
  }

  /** The idempotency key of the order that has failed, or of the one whose render could not be watched. */
  public Optional<String> idempotencyKey() {
    return text(failure.subject.key);
  }

  /** The render that the call was about. From {@link OrderRequest#run} it says that the order stands. */
  public Optional<String> generationId() {
    return text(failure.subject.generationId);
  }

  /** What the log of the server has of the call. */
  public Optional<String> requestId() {
    return failure.detail(RequestInfo.class).flatMap(info -> text(info.getRequestId()));
  }

  private static Optional<String> text(String text) {
    return Optional.of(text).filter(some -> !some.isEmpty());
  }

  /** How long to wait before the next attempt, where the server has said so. */
  public Optional<Duration> retryAfter() {
    return failure.retryAfter();
  }

  /** When a budget is reset. */
  public Optional<Instant> resetTime() {
    try {
      return Optional.of(Instant.parse(failure.metadata("reset_time")));
    } catch (DateTimeParseException e) {
      return Optional.empty(); // as if it were not there
    }
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
