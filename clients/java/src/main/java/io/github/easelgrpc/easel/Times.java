package io.github.easelgrpc.easel;

import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;

/** Converts times and durations between the contract's types and Java's types. */
final class Times {
  private static final long LONGEST = 315_576_000_000L; // maximum duration in the contract, in seconds

  private Times() {}

  static Duration duration(com.google.protobuf.Duration duration) {
    var seconds = Math.max(-LONGEST, Math.min(duration.getSeconds(), LONGEST));
    return Duration.ofSeconds(seconds, duration.getNanos());
  }

  static Timestamp timestamp(Instant time) {
    return Timestamp.newBuilder().setSeconds(time.getEpochSecond()).setNanos(time.getNano()).build();
  }

  static Instant instant(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }
}
