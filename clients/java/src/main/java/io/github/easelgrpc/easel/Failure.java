package io.github.easelgrpc.easel;

import com.google.gson.Gson;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** What an error says, and what the table of errors says of it. */
final class Failure {
  private static final Table TABLE = new Gson().fromJson(
      new InputStreamReader(Failure.class.getResourceAsStream("/easel/v1/reasons.json"), StandardCharsets.UTF_8), Table.class);

  final com.google.rpc.Status status;
  final String key; // of the order, "" of anything else
  final Throwable cause; // null of what the helper says itself
  final ErrorInfo info;

  /** What clients/reasons.json says. */
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

  private Failure(com.google.rpc.Status status, String key, Throwable cause) {
    this.status = status;
    this.key = key;
    this.cause = cause;
    this.info = detail(ErrorInfo.class).filter(found -> found.getDomain().equals("easel")).orElse(ErrorInfo.getDefaultInstance());
  }

  /** Makes the exception of an error of gRPC. */
  static EaselException exception(StatusRuntimeException error, String key) {
    var failure = of(error, key);
    return Classes.of(failure.row().name, failure);
  }

  static Failure of(StatusRuntimeException error, String key) {
    return new Failure(StatusProto.fromThrowable(error), key, error);
  }

  /** What the helper finds itself. */
  static Failure of(Status.Code code, String message, String key) {
    return new Failure(com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage(message).build(), key, null);
  }

  String message() {
    var why = info.getReason().isEmpty() ? code().name() : info.getReason();
    return why + ": " + status.getMessage() + (key.isEmpty() ? "" : " (idempotency key " + key + ")");
  }

  Status.Code code() {
    return Status.fromCodeValue(status.getCode()).getCode();
  }

  boolean isRetryable() {
    var again = row().again;
    return again.equals("yes") || again.equals("if_told") && detail(RetryInfo.class).isPresent();
  }

  /** Reports whether a watch that is opened again would meet the same. */
  boolean endsAWatch() {
    return TABLE.watchEnds.contains(code().name());
  }

  String metadata(String name) {
    return info.getMetadataOrDefault(name, "");
  }

  OptionalLong cents(String name) {
    var text = metadata(name);
    return text.isEmpty() ? OptionalLong.empty() : OptionalLong.of(Long.parseLong(text));
  }

  <T extends Message> Optional<T> detail(Class<T> type) {
    for (var detail : status.getDetailsList()) {
      if (detail.is(type)) {
        try {
          return Optional.of(detail.unpack(type));
        } catch (InvalidProtocolBufferException e) {
          return Optional.empty(); // as if it were not there
        }
      }
    }
    return Optional.empty();
  }

  /** A reason outranks its code. */
  private Row row() {
    var row = TABLE.reasons.get(info.getReason());
    return row == null ? TABLE.codes.get(code().name()) : row;
  }
}
