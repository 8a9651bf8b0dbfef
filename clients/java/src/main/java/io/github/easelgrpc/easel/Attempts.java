package io.github.easelgrpc.easel;

import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.AbstractStub;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** The attempts of one call that goes on through what a repeat may mend. */
final class Attempts {
  static final Duration LONGEST = Duration.ofSeconds(10); // of back-off, before jitter
  private static final Duration LONGEST_ASKED = Duration.ofHours(1); // a server that asks for more is not waited for
  private static final int MOST_ASKED = 10; // attempts of a read whose server asks for each of them
  private static final long WARN_AFTER = 5000; // milliseconds of failures, the coming delay included

  /** A kind of call, with its default limits. A stream lasts as long as the render, and ends after an outage of about 15 minutes. */
  enum Kind {
    READ(Duration.ofMinutes(1), 5),
    ORDER(Duration.ofMinutes(15), 100),
    STREAM(null, 100);

    final Duration timeout; // null means none
    final int attempts;

    Kind(Duration timeout, int attempts) {
      this.timeout = timeout;
      this.attempts = attempts;
    }
  }

  private final Easel easel;
  private final Kind kind;
  private final String method;
  private final int most;
  private final CountDownLatch ended = new CountDownLatch(1); // which any thread may do
  private Deadline deadline; // null means none but that of the Context
  private Failure.Subject subject;
  private Failure before; // of the newest attempt that the timeout has not ended; null before the first
  private int failures;
  private int unasked; // failed attempts since the last response
  private int asked;
  private long failingSince = System.nanoTime(); // 0 after a response
  private boolean warned;
  private Heartbeat last; // null before the first

  /** Those of an order begin with the outcome that it is not placed by them. The texts are "" where there are none. */
  Attempts(Easel easel, Kind kind, String method, String key, String generationId) {
    this.easel = easel;
    this.kind = kind;
    this.method = method;
    this.most = easel.attempts(kind);
    this.subject = new Failure.Subject(key, generationId, kind == Kind.ORDER ? EaselException.OrderOutcome.NOT_PLACED_BY_THIS_CALL : null);
    begin();
  }

  /** Starts the time of the call, again for each page of a list. */
  void begin() {
    deadline = easel.deadline(kind);
  }

  /** The stub of the next attempt. */
  <S extends AbstractStub<S>> S on(S stub) {
    return deadline == null ? stub : stub.withDeadline(deadline);
  }

  /** Begins the back-off anew. */
  void progress() {
    failures = 0;
  }

  /** Records a response, which need not be progress. */
  void responded() {
    if (warned) {
      easel.hooks().recovered(method, millisSince(failingSince));
    }
    unasked = asked = 0;
    failingSince = 0;
    warned = false;
  }

  private static long millisSince(long nanos) {
    return nanos == 0 ? 0 : TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - nanos);
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
    if (failure.code() == Status.Code.DEADLINE_EXCEEDED && isOverWithin(1000)) {
      return new TimeoutException((before == null ? failure : before).about(subject), last);
    }
    before = failure.about(subject);
    return before.exception();
  }

  private boolean areLeft(EaselException error) {
    if (error.retryAfter().isPresent()) {
      asked++;
    } else {
      unasked++;
    }
    return kind == Kind.READ ? asked < MOST_ASKED && unasked < most : asked + unasked < most;
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
    if (!worth || told.compareTo(LONGEST_ASKED) > 0 || !areLeft(error)) {
      throw error;
    }
    var backOff = Math.min(500L << Math.min(failures++, 8), LONGEST.toMillis()) * ThreadLocalRandom.current().nextDouble(0.5, 1.5);
    var delay = Math.max((long) backOff, told.toMillis());
    if (isOverWithin(delay)) {
      throw new TimeoutException(error.failure(), last);
    }
    warn(error, delay);
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

  /** Logs that the call has been failing for five seconds. */
  private void warn(EaselException error, long delay) {
    if (failingSince == 0) {
      failingSince = System.nanoTime();
    }
    var failing = millisSince(failingSince);
    warned |= failing + delay >= WARN_AFTER && easel.hooks().failing(method, failing, delay, error);
  }

  /** The error of a call that its caller has ended, which no repeat mends. */
  private static EaselException end(EaselException error) {
    return error instanceof TimeoutException ? error : error.failure().asLast().exception();
  }

  private boolean isOver() {
    return easel.isClosed() || Thread.currentThread().isInterrupted() || Context.current().isCancelled();
  }

  /** Reports whether the time of the call, or of the caller's Context, ends within the given milliseconds. */
  private boolean isOverWithin(long millis) {
    return Stream.of(deadline, Context.current().getDeadline()).anyMatch(end -> end != null && end.timeRemaining(TimeUnit.MILLISECONDS) < millis);
  }
}
