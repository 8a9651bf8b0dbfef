package io.github.easelgrpc.easel;

import com.google.gson.Gson;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.github.easelgrpc.easel.EaselException.OrderOutcome;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** An error from a call. The error table determines its class, and whether a retry may help. */
final class Failure {
  private static final Table TABLE = new Gson().fromJson(
      new InputStreamReader(Failure.class.getResourceAsStream("/easel/v1/reasons.json"), StandardCharsets.UTF_8), Table.class);

  final com.google.rpc.Status status;
  final Throwable cause; // exception from gRPC; null if the client itself detected the error
  final ErrorInfo info;
  final Subject subject;
  private final boolean last; // whether the failure is final, so that isRetryable() returns false

  /** The order and render that a call concerns. key and generationId are empty if unknown. */
  static final class Subject {
    static final Subject NONE = new Subject("", "", null);
    final String key; // idempotency key of the order
    final String generationId;
    final OrderOutcome outcome; // outcome of the order over all attempts so far; null for other calls

    Subject(String key, String generationId, OrderOutcome outcome) {
      this.key = key;
      this.generationId = generationId;
      this.outcome = outcome;
    }

    /**
     * Returns the subject with the order's outcome after another failed attempt. The argument {@code answer} is the outcome in
     * the error. An empty {@code answer} makes the order's outcome UNKNOWN, because the attempt may have placed the order. Only
     * the {@code answer} "not_placed" changes an UNKNOWN outcome.
     */
    Subject after(String answer) {
      if (outcome == null) {
        return this;
      }
      var now = OrderOutcome.UNKNOWN;
      if (answer.equals("not_placed")) {
        now = OrderOutcome.NOT_PLACED;
      } else if (answer.equals("not_placed_by_this_call") && outcome != OrderOutcome.UNKNOWN) {
        now = OrderOutcome.NOT_PLACED_BY_THIS_CALL;
      }
      return new Subject(key, generationId, now);
    }
  }

  /** The content of clients/reasons.json. */
  private static final class Table {
    Map<String, Row> reasons;
    Map<String, Row> codes;
    @com.google.gson.annotations.SerializedName("watch_ends")
    List<String> watchEnds;
  }

  private static final class Row {
    @com.google.gson.annotations.SerializedName("class")
    String name;
    String again;
  }

  private Failure(com.google.rpc.Status status, Throwable cause, Subject subject, boolean last) {
    this.status = status;
    this.cause = cause;
    this.subject = subject;
    this.last = last;
    this.info = detail(ErrorInfo.class).filter(found -> found.getDomain().equals("easel")).orElse(ErrorInfo.getDefaultInstance());
  }

  /**
   * Returns the failure for an error from gRPC. The argument {@code address} is the address of the server. The argument
   * {@code silent} is true if the failed attempt received no response.
   */
  static Failure of(StatusRuntimeException error, String address, boolean silent) {
    return new Failure(status(error, plain(error.getStatus(), address, silent)), error, Subject.NONE, false);
  }

  private static com.google.rpc.Status status(StatusRuntimeException error, String message) {
    try {
      var status = StatusProto.fromThrowable(error);
      return status.getDetailsCount() > 0 ? status : status.toBuilder().setMessage(message).build();
    } catch (IllegalArgumentException e) { // the details can't be parsed
      return status(error.getStatus().getCode(), message);
    }
  }

  /**
   * Returns a clearer description if the status reports that the connection to the address failed. Otherwise, it returns the
   * status's own description.
   */
  private static String plain(Status status, String address, boolean silent) {
    var text = Optional.ofNullable(status.getDescription()).orElse("");
    if (text.startsWith("Keepalive failed") || silent && text.startsWith("CallOptions deadline exceeded")) {
      return address + " does not respond";
    }
    if (!text.equals("io exception") || status.getCause() == null) {
      return text;
    }
    var cause = status.getCause();
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    var reason = Optional.ofNullable(cause.getMessage()).orElse(cause.toString());
    return "connection to " + address + " failed: " + reason.replaceFirst("^\\S+ failed with error\\(-?\\d+\\): ", ""); // removes netty's prefix, which contains the name of a system call
  }

  private static com.google.rpc.Status status(Status.Code code, String message) {
    return com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage(message).build();
  }

  /** Returns a failure that the client itself detected. The failure is not retryable. */
  static Failure of(Status.Code code, String message, Subject subject) {
    return new Failure(status(code, message), null, subject, true);
  }

  Failure about(Subject subject) {
    return new Failure(status, cause, subject, last);
  }

  /** Returns a copy of this failure that is not retryable. */
  Failure asLast() {
    return new Failure(status, cause, subject, true);
  }

  /** Returns an exception of this failure's class. */
  EaselException exception() {
    return Classes.of(row().name, this);
  }

  String message() {
    var text = (info.getReason().isEmpty() ? code().name() : info.getReason()) + ": " + status.getMessage();
    text += subject.generationId.isEmpty() ? "" : " (render " + subject.generationId + ")";
    return text + (subject.key.isEmpty() ? "" : " (idempotency key " + subject.key + ")");
  }

  Status.Code code() {
    return Status.fromCodeValue(status.getCode()).getCode();
  }

  boolean isRetryable() {
    var again = row().again;
    return !last && (again.equals("yes") || again.equals("if_told") && retryAfter().isPresent());
  }

  Optional<Duration> retryAfter() {
    return detail(RetryInfo.class).map(told -> Times.duration(told.getRetryDelay())).filter(delay -> delay.compareTo(Duration.ZERO) > 0);
  }

  /** Reports whether the failure ends a watch. After other failures, the watch reconnects. */
  boolean endsAWatch() {
    return TABLE.watchEnds.contains(code().name());
  }

  String metadata(String name) {
    return info.getMetadataOrDefault(name, "");
  }

  OptionalLong cents(String name) {
    var text = metadata(name);
    try {
      return OptionalLong.of(Long.parseLong(text));
    } catch (NumberFormatException e) {
      return OptionalLong.empty(); // the amount is missing or invalid
    }
  }

  <T extends Message> Optional<T> detail(Class<T> type) {
    for (var detail : status.getDetailsList()) {
      if (detail.is(type)) {
        try {
          return Optional.of(detail.unpack(type));
        } catch (InvalidProtocolBufferException e) {
          return Optional.empty(); // the detail can't be parsed
        }
      }
    }
    return Optional.empty();
  }

  /** Returns the row of clients/reasons.json for the reason, or the row for the gRPC code if the reason is unknown. */
  private Row row() {
    var row = TABLE.reasons.get(info.getReason());
    return row == null ? TABLE.codes.get(code().name()) : row;
  }
}
