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
  private static final Duration LONGEST_ASKED = Duration.ofHours(1); // a server that asks for more is not waited for
  private static final int MOST = 5; // of a read
  private static final int MOST_ASKED = 10; // of a read, where the server says when
  private final Easel easel;
  private final CountDownLatch ended = new CountDownLatch(1); // which any thread may do
  private Failure.Subject subject;
  private Failure before; // of the newest attempt that the timeout has not ended; null before the first
  private int failures;
  private int unasked;
  private int asked;
  private Heartbeat last; // null before the first

  /** Those of an order begin with the outcome that it is not placed by them. The texts are "" where there are none. */
  Attempts(Easel easel, String key, String generationId) {
    this.easel = easel;
    this.subject = new Failure.Subject(key, generationId, EaselException.OrderOutcome.NOT_PLACED_BY_THIS_CALL);
  }

  /** Begins the back-off anew. */
  void progress() {
    failures = 0;
  }

  /** Keeps why a watch is quiet, for a timeout to tell. */
  void heard(Heartbeat heartbeat) {
    last = heartbeat;
  }

  Heartbeat heard() {
    return last;
  }

  /** Lets no attempt follow. */
  void end() {
    ended.countDown();
  }

  boolean hasEnded() {
    return ended.getCount() == 0;
  }

  /** Makes the exception of an error of gRPC. A timeout has the error before it, which says more. */
  EaselException exception(StatusRuntimeException error) {
    var failure = Failure.of(error);
    subject = subject.after(failure.metadata("order_outcome"));
    if (failure.code() == Status.Code.DEADLINE_EXCEEDED && easel.isOverWithin(1000)) {
      return new TimeoutException((before == null ? failure : before).about(subject), last);
    }
    before = failure.about(subject);
    return before.exception();
  }

  /** Reports whether a read that has failed so is sent again. */
  boolean areLeft(EaselException error) {
    return error.retryAfter().isPresent() ? ++asked < MOST_ASKED : ++unasked < MOST;
  }

  /**
   * Waits before another attempt, with back-off and no less than the server asks, or until there is an end. The error is thrown where no
   * attempt is worth it.
   */
  void pause(EaselException error, boolean worth, Duration least) {
    if (isOver()) {
      throw end(error);
    }
    var told = error.retryAfter().filter(delay -> delay.compareTo(least) > 0).orElse(least);
    if (!worth || told.compareTo(LONGEST_ASKED) > 0) {
      throw error;
    }
    var backOff = Math.min(500L << Math.min(failures++, 8), LONGEST.toMillis()) * ThreadLocalRandom.current().nextDouble(0.5, 1.5);
    var delay = Math.max((long) backOff, told.toMillis());
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
        throw end(error);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw end(error);
    } finally {
      context.removeListener(end);
    }
  }

  /** The error of a call that its caller has ended, which no repeat mends. */
  private static EaselException end(EaselException error) {
    return error instanceof TimeoutException ? error : error.failure().asLast().exception();
  }

  private boolean isOver() {
    return easel.isClosed() || Thread.currentThread().isInterrupted() || Context.current().isCancelled();
  }
}
