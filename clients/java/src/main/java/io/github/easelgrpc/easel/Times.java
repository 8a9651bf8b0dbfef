package io.github.easelgrpc.easel;

import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;

/** Java's own times of those of the contract. */
final class Times {
  private Times() {}

  static Duration duration(com.google.protobuf.Duration duration) {
    return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
  }

  static Instant instant(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }
}
