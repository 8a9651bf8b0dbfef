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

/** The base class of the exceptions for failed calls. Each kind of error that you would handle differently has its own subclass. */
public class EaselException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final transient Failure failure;

  EaselException(Failure failure) {
    super(failure.message(), failure.cause);
    this.failure = failure;
  }

  /** Whether the order of a failed call exists. See CreateGeneration in the contract for the exact rules. */
  public enum OrderOutcome { UNKNOWN, NOT_PLACED_BY_THIS_CALL, NOT_PLACED }

  /** Returns the reason, or ERROR_REASON_UNSPECIFIED if this client does not know the reason or the error is not from Easel. */
  public ErrorReason reason() {
    var value = ErrorReason.getDescriptor().findValueByName(failure.info.getReason());
    return value == null ? ErrorReason.ERROR_REASON_UNSPECIFIED : ErrorReason.valueOf(value);
  }

  /** Returns the name of the reason, even if this client does not know the reason; empty if the error is not from Easel. */
  public String reasonName() {
    return failure.info.getReason();
  }

  /** Returns the gRPC code. */
  public Status.Code code() {
    return failure.code();
  }

  /**
   * Returns whether a later retry of the call may succeed. {@link Easel} has already retried the call within its limits. If the
   * call timed out or the caller ended it, isRetryable returns false.
   */
  public boolean isRetryable() {
    return failure.isRetryable();
  }

  Failure failure() {
    return failure;
  }

  /**
   * Returns an order's outcome over all attempts; empty for other calls. If the outcome is UNKNOWN, the order may exist. Keep
   * the order's key.
   */
  public Optional<OrderOutcome> orderOutcome() {
    return Optional.ofNullable(failure.subject.outcome);
  }

  /** Returns the idempotency key of the order that failed, or of the order whose watch failed. */
  public Optional<String> idempotencyKey() {
    return text(failure.subject.key);
  }

  /** Returns the ID of the render, if it is known. {@link OrderRequest#run} knows the ID as soon as the order is placed. */
  public Optional<String> generationId() {
    return text(failure.subject.generationId);
  }

  /** Returns the call's ID in the server's log. */
  public Optional<String> requestId() {
    return failure.detail(RequestInfo.class).flatMap(info -> text(info.getRequestId()));
  }

  private static Optional<String> text(String text) {
    return Optional.of(text).filter(some -> !some.isEmpty());
  }

  /** Returns the delay that the server requests before a retry; empty if it requests none. */
  public Optional<Duration> retryAfter() {
    return failure.retryAfter();
  }

  /** Returns the time when the exceeded budget is reset; empty if no budget is exceeded. */
  public Optional<Instant> resetTime() {
    try {
      return Optional.of(Instant.parse(failure.metadata("reset_time")));
    } catch (DateTimeParseException e) {
      return Optional.empty(); // the time is missing or invalid
    }
  }

  /** Returns the remaining amount of the exceeded budget; empty if no budget is exceeded. */
  public OptionalLong remainingCents() {
    return failure.cents("remaining_cents");
  }

  /** Returns the name of the label whose budget is exceeded; empty if no label's budget is exceeded. */
  public Optional<String> labelName() {
    return text(failure.metadata("label_name"));
  }

  /** Returns the value of the label whose budget is exceeded; empty if no label's budget is exceeded. */
  public Optional<String> labelValue() {
    return text(failure.metadata("label_value"));
  }

  /** Returns the price of the order if the price exceeds the order's limit or a budget; empty for other errors. */
  public OptionalLong priceCents() {
    return failure.cents("price_cents");
  }

  /** Returns a description of the problem for each invalid field of the request, keyed by the field's name. */
  public Map<String, String> fieldViolations() {
    var fields = new LinkedHashMap<String, String>();
    failure.detail(BadRequest.class).ifPresent(bad -> bad.getFieldViolationsList().forEach(v -> fields.put(v.getField(), v.getDescription())));
    return fields;
  }

  /**
   * Returns the gRPC status with all details. If the client itself detected the error, the status is from the client and has no
   * details.
   */
  public com.google.rpc.Status raw() {
    return failure.status;
  }
}
