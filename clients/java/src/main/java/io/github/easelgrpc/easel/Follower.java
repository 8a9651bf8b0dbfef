package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.StreamClosing;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * The base class of all watches. It reads messages of type M and yields the values of type T in them. After a failure, it
 * reopens the stream.
 */
abstract class Follower<M, T> implements Watch<T>, Iterator<T> {
  private static final Duration SHORTEST = Duration.ofSeconds(1); // minimum heartbeat interval in the contract
  private static final Duration HEARTBEAT = Duration.ofSeconds(15); // default heartbeat interval in the contract

  private static final Cleaner CLEANER = Cleaner.create();

  private final Easel easel;
  private final Attempts attempts;
  private final Duration silence; // time without a message after which the stream is canceled
  private final boolean hasGoal; // whether the watch is complete when the server ends the stream with OK
  private final Stream stream = new Stream();
  private Iterator<M> messages; // messages of the current stream; null between streams
  private long start; // System.nanoTime() at the start of the newest stream
  private Duration asked = Duration.ZERO; // delay that the server requested when it closed the last stream
  private boolean silent; // whether the stream was canceled because no message arrived in time
  private T next;

  Follower(Easel easel, Attempts attempts, com.google.protobuf.Duration heartbeatInterval, boolean hasGoal) {
    this.easel = easel;
    this.attempts = attempts;
    var interval = Times.duration(heartbeatInterval);
    var longest = interval.isZero() ? HEARTBEAT : interval;
    // An interval below the minimum counts as the minimum, so that the stream is not canceled before the server's rejection
    // of the interval arrives.
    this.silence = (longest.compareTo(SHORTEST) < 0 ? SHORTEST : longest).multipliedBy(3);
    this.hasGoal = hasGoal;
    CLEANER.register(this, stream::end);
  }

  /** The current stream. It has no reference to the watch, so that an abandoned watch can be garbage-collected, which ends the stream. */
  private static final class Stream {
    private volatile Context.CancellableContext call; // context that cancels the newest stream; null before the first stream

    void end() {
      var newest = call;
      if (newest != null) {
        newest.cancel(null);
      }
    }
  }

  /** Opens a stream that continues after the values received so far. */
  abstract Iterator<M> open(Easel easel, Attempts attempts);

  /** Processes a message by calling heartbeat(), closing() or newer(). */
  abstract void take(M message);

  final void heartbeat(io.github.easelgrpc.easel.v1.Heartbeat message) {
    var heartbeat = Heartbeat.of(message);
    attempts.heard(heartbeat);
    easel.hooks().heartbeat(heartbeat);
  }

  /** Returns the watch's last heartbeat, or null before the first heartbeat. */
  final Heartbeat heard() {
    return attempts.heard();
  }

  final void closing(StreamClosing closing) {
    asked = Times.duration(closing.getRetryDelay());
  }

  /** Resets the back-off. */
  final void progress() {
    attempts.progress();
  }

  /** Sets the value that the iterator returns next. */
  final void newer(T state) {
    next = state;
  }

  @Override
  public final Iterator<T> iterator() {
    return this;
  }

  @Override
  public final T next() {
    if (!hasNext()) {
      throw new NoSuchElementException("the watch has ended");
    }
    var state = next;
    next = null;
    return state;
  }

  @Override
  public final boolean hasNext() {
    while (next == null && !attempts.hasEnded()) {
      try {
        receive();
      } catch (StatusRuntimeException e) {
        leave();
        retry(e);
      }
    }
    return next != null;
  }

  @Override
  public final void close() {
    attempts.end();
    stream.end();
  }

  private void retry(StatusRuntimeException error) {
    if (attempts.hasEnded()) {
      return;
    }
    if (System.nanoTime() - start > Attempts.LONGEST.toNanos()) {
      attempts.progress(); // a stream that lasted longer than the maximum back-off counts as a success
    }
    var told = silent ? Status.UNAVAILABLE.withDescription("no message for " + silence.toSeconds() + " s").asRuntimeException() : error;
    var failure = attempts.exception(told);
    attempts.pause(failure, !failure.failure().endsAWatch(), asked);
  }

  private void receive() {
    if (messages == null) {
      begin();
    }
    if (arrives()) {
      attempts.responded();
      take(messages.next());
    } else if (hasGoal) {
      close();
    } else {
      throw Status.UNAVAILABLE.withDescription("the server ended the stream").asRuntimeException();
    }
  }

  private void begin() {
    start = System.nanoTime();
    asked = Duration.ZERO;
    silent = false;
    var newest = Context.current().withCancellation();
    stream.call = newest;
    if (attempts.hasEnded()) { // close may have been called before stream.call was set
      newest.cancel(null);
    }
    var previous = newest.attach();
    try {
      messages = open(easel, attempts);
    } finally {
      newest.detach(previous);
    }
  }

  /**
   * Waits for a message, and reports whether one arrived before the stream ended. It cancels the stream if no message arrives
   * in time. The time that the caller spends in its loop does not count.
   */
  private boolean arrives() {
    var reading = stream.call;
    var timer = new CompletableFuture<Void>().orTimeout(silence.toMillis(), TimeUnit.MILLISECONDS);
    timer.whenComplete((nothing, timeout) -> {
      if (timeout != null) {
        reading.cancel(timeout);
      }
    });
    try {
      return messages.hasNext();
    } finally {
      silent = !timer.complete(null);
    }
  }

  private void leave() {
    if (messages != null) {
      stream.end();
      messages = null;
    }
  }
}
