package io.github.easelgrpc.easel;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.github.easelgrpc.easel.v1.ErrorReason;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;

/** What an error of a call says. */
public final class Errors {
  private static final Set<ErrorReason> PASSING = EnumSet.of(
      ErrorReason.SUBMISSION_IN_PROGRESS, ErrorReason.CONTENT_NOT_READY, ErrorReason.CONTENT_INTERRUPTED, ErrorReason.UPSTREAM_RATE_LIMITED,
      ErrorReason.UPSTREAM_UNAVAILABLE, ErrorReason.UPSTREAM_MALFORMED_RESPONSE, ErrorReason.LEDGER_UNAVAILABLE, ErrorReason.OVERLOADED,
      ErrorReason.STREAM_QUOTA_EXCEEDED, ErrorReason.READER_TOO_SLOW, ErrorReason.SERVER_DRAINING, ErrorReason.STREAM_MAX_AGE,
      ErrorReason.REQUEST_BODY_TIMEOUT, ErrorReason.CANCELLED, ErrorReason.DEADLINE_EXCEEDED, ErrorReason.INTERNAL, ErrorReason.UNAVAILABLE);
  private static final Set<Status.Code> BROKEN = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.ABORTED, Status.Code.INTERNAL,
      Status.Code.UNKNOWN, Status.Code.CANCELLED, Status.Code.DEADLINE_EXCEEDED); // what libraries and proxies say

  private Errors() {}

  /** What is known of an order that has failed: see CreateGeneration. */
  public enum OrderOutcome { UNKNOWN, NOT_PLACED_BY_THIS_CALL, NOT_PLACED }

  /** Says why a call has failed: ERROR_REASON_UNSPECIFIED where the error is not of Easel, or of a newer one. */
  public static ErrorReason reason(Throwable error) {
    var value = ErrorReason.getDescriptor().findValueByName(info(error).getReason());
    return value == null ? ErrorReason.ERROR_REASON_UNSPECIFIED : ErrorReason.valueOf(value);
  }

  /** Says how long to wait before the next attempt, where the server has said so. */
  public static Optional<Duration> retryDelay(Throwable error) {
    return detail(error, RetryInfo.class).map(info -> duration(info.getRetryDelay()));
  }

  /** Says what is known of an order that has failed. Any error may leave it UNKNOWN. */
  public static OrderOutcome orderOutcome(Throwable error) {
    switch (info(error).getMetadataOrDefault("order_outcome", "")) {
      case "not_placed":
        return OrderOutcome.NOT_PLACED;
      case "not_placed_by_this_call":
        return OrderOutcome.NOT_PLACED_BY_THIS_CALL;
      default:
        return OrderOutcome.UNKNOWN;
    }
  }

  /** Reports whether the same call again may mend an error. A reason outranks its code. */
  static boolean repeatHelps(StatusRuntimeException error) {
    var reason = reason(error);
    var told = retryDelay(error).isPresent();
    switch (reason) {
      case ERROR_REASON_UNSPECIFIED:
        return told || BROKEN.contains(error.getStatus().getCode());
      case SUBMISSION_OUTCOME_UNKNOWN:
        return told; // else it is too late
      default:
        return PASSING.contains(reason);
    }
  }

  static Duration duration(com.google.protobuf.Duration duration) {
    return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
  }

  private static ErrorInfo info(Throwable error) {
    return detail(error, ErrorInfo.class).filter(info -> info.getDomain().equals("easel")).orElse(ErrorInfo.getDefaultInstance());
  }

  private static <T extends Message> Optional<T> detail(Throwable error, Class<T> type) {
    var status = StatusProto.fromThrowable(error);
    if (status == null) {
      return Optional.empty();
    }
    return status.getDetailsList().stream().filter(detail -> detail.is(type)).findFirst().map(detail -> unpack(detail, type));
  }

  private static <T extends Message> T unpack(Any detail, Class<T> type) {
    try {
      return detail.unpack(type);
    } catch (InvalidProtocolBufferException e) {
      return null; // as if it were not there
    }
  }
}
