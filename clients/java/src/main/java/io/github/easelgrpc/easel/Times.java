package io.github.easelgrpc.easel;

import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;

/** Java's own times of those of the contract, and back. */
final class Times {
  private Times() {}

  static Duration duration(com.google.protobuf.Duration duration) {
    return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
  }

  static com.google.protobuf.Duration duration(Duration duration) {
    return com.google.protobuf.Duration.newBuilder().setSeconds(duration.getSeconds()).setNanos(duration.getNano()).build();
  }

  static Instant instant(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }
}
