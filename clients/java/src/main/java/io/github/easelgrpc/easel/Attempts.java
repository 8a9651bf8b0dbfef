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

/** Counts the attempts of one call, and decides whether and when the call is retried. */
final class Attempts {
  static final Duration LONGEST = Duration.ofSeconds(10); // maximum back-off before jitter
  private static final Duration LONGEST_ASKED = Duration.ofHours(1); // maximum delay before a retry; if the server requests a longer delay, the call fails
  private static final int MOST_ASKED = 10; // a read fails after this many errors that contain a retry delay
  private static final long WARN_AFTER = 5000; // time in milliseconds after which a call that keeps failing causes a warning

  /**
   * A kind of call, with its default limits. A stream is a watch or a download. It has no time limit. It fails after 100
   * consecutive failed attempts, which take about 15 minutes.
   */
  enum Kind {
    READ(Duration.ofMinutes(1), 5),
    ORDER(Duration.ofMinutes(15), 100),
    STREAM(null, 100);

    final Duration timeout; // null means no limit
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
  private final CountDownLatch ended = new CountDownLatch(1); // reaches zero when a thread ends the call
  private Deadline deadline; // deadline of the call; null if only the Context limits its time
  private Failure.Subject subject;
  private Failure before; // last failure that was not caused by the timeout; null before the first failure
  private int failures;
  private int unasked; // number of errors that contained no retry delay; 0 after a response
  private int asked; // number of errors that contained a retry delay; 0 after a response
  private long failingSince = System.nanoTime(); // System.nanoTime() at the start of the current series of failures; 0 after a success
  private boolean warned;
  private Heartbeat last; // last heartbeat; null before the first heartbeat

  /** Creates the state for a call that starts now. key and generationId are empty if unknown. */
  Attempts(Easel easel, Kind kind, String method, String key, String generationId) {
    this.easel = easel;
    this.kind = kind;
    this.method = method;
    this.most = easel.attempts(kind);
    this.subject = new Failure.Subject(key, generationId, kind == Kind.ORDER ? EaselException.OrderOutcome.NOT_PLACED_BY_THIS_CALL : null);
    begin();
  }

  /** Starts the time limit of the call. The limit restarts for each page of results. */
  void begin() {
    deadline = easel.deadline(kind);
  }

  /** Returns the stub with the deadline of the call, for the next attempt. */
  <S extends AbstractStub<S>> S on(S stub) {
    return deadline == null ? stub : stub.withDeadline(deadline);
  }

  /** Resets the back-off. */
  void progress() {
    failures = 0;
  }

  /** Records a successful response. It does not reset the back-off. */
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

  /** Stores a heartbeat. If the call times out, its exception contains the last heartbeat. */
  void heard(Heartbeat heartbeat) {
    last = heartbeat;
  }

  Heartbeat heard() {
    return last;
  }

  /** Prevents further attempts of the call, and ends a pause before an attempt. */
  void end() {
    ended.countDown();
  }

  boolean hasEnded() {
    return ended.getCount() == 0;
  }

  /** Converts a gRPC error to an exception. If the call timed out, the exception contains the last failure before the timeout. */
  EaselException exception(StatusRuntimeException error) {
    var failure = Failure.of(error, easel.address(), failingSince != 0);
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
   * Waits before the next attempt. The delay is the longest of the back-off, the delay in the error and the argument
   * {@code least}. The method throws an exception if the limits of the call are reached or the caller ends the call. If the
   * argument {@code worth} is false, the error is final, and the method throws it without waiting.
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
    var context = Context.current(); // addListener and removeListener must be called on the same context
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

  /**
   * Logs a warning if the next attempt starts at least five seconds after failingSince. It logs no warning if a warning about
   * the method was logged during the last minute.
   */
  private void warn(EaselException error, long delay) {
    if (failingSince == 0) {
      failingSince = System.nanoTime();
    }
    var failing = millisSince(failingSince);
    warned |= failing + delay >= WARN_AFTER && easel.hooks().failing(method, easel.address(), failing, delay, error);
  }

  /** Returns an exception for a call that was ended by the caller. The exception is not retryable. */
  private static EaselException end(EaselException error) {
    return error instanceof TimeoutException ? error : error.failure().asLast().exception();
  }

  private boolean isOver() {
    return easel.isClosed() || Thread.currentThread().isInterrupted() || Context.current().isCancelled();
  }

  /** Reports whether the deadline of the call or of the caller's Context will pass within the given number of milliseconds. */
  private boolean isOverWithin(long millis) {
    return Stream.of(deadline, Context.current().getDeadline()).anyMatch(end -> end != null && end.timeRemaining(TimeUnit.MILLISECONDS) < millis);
  }
}
