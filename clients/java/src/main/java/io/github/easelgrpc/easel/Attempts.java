package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.Heartbeat;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** The attempts of one call that goes on through what a repeat may mend. */
final class Attempts {
  static final Duration LONGEST = Duration.ofSeconds(10); // of back-off, before jitter
  private final Easel easel;
  private final String key;
  private final CountDownLatch ended = new CountDownLatch(1); // which any thread may do
  private int failures;
  private Heartbeat last; // null before the first

  /** The key is that of the order that the call is about, or "". */
  Attempts(Easel easel, String key) {
    this.easel = easel;
    this.key = key;
  }

  /** Begins the back-off anew. */
  void progress() {
    failures = 0;
  }

  /** Keeps why a watch is quiet, for a timeout to tell. */
  void heard(Heartbeat heartbeat) {
    last = heartbeat;
  }

  /** Lets no attempt follow. */
  void end() {
    ended.countDown();
  }

  boolean hasEnded() {
    return ended.getCount() == 0;
  }

  /** Makes the exception of an error of gRPC. */
  EaselException exception(StatusRuntimeException error) {
    var late = error.getStatus().getCode() == Status.Code.DEADLINE_EXCEEDED && easel.isOverWithin(1000);
    return late ? new TimeoutException(Failure.of(error, key), last) : Failure.exception(error, key);
  }

  /**
   * Waits before another attempt, with back-off and no less than the server asks, or until there is an end. The error is thrown where no
   * attempt is worth it.
   */
  void pause(EaselException error, boolean worth, Duration least) {
    var backOff = Math.min(500L << Math.min(failures++, 8), LONGEST.toMillis()) * ThreadLocalRandom.current().nextDouble(0.5, 1.5);
    var asked = Math.max(least.toMillis(), error.retryAfter().orElse(Duration.ZERO).toMillis());
    var delay = Math.max((long) backOff, asked);
    if (!worth || isOver()) {
      throw error;
    }
    if (easel.isOverWithin(delay)) {
      throw new TimeoutException(error.failure(), last);
    }
    easel.hooks().retry(error, Duration.ofMillis(delay));
    var context = Context.current(); // of this moment, for both
    Context.CancellationListener end = cancelled -> end();
    context.addListener(end, Runnable::run);
    try {
      ended.await(delay, TimeUnit.MILLISECONDS);
      if (isOver()) {
        throw error;
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw error;
    } finally {
      context.removeListener(end);
    }
  }

  private boolean isOver() {
    return easel.isClosed() || Thread.currentThread().isInterrupted() || Context.current().isCancelled();
  }
}
