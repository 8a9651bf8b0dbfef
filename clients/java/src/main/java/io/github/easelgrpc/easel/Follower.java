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

/** The loop of every watch: one stream of messages M after another, and the states T of all of them. */
abstract class Follower<M, T> implements Watch<T>, Iterator<T> {
  private static final Duration SHORTEST = Duration.ofSeconds(1); // interval that the contract allows
  private static final Duration HEARTBEAT = Duration.ofSeconds(15); // of the contract, where a request names none

  private static final Cleaner CLEANER = Cleaner.create();

  private final Easel easel;
  private final Attempts attempts;
  private final Duration silence; // the longest
  private final boolean hasGoal; // so that OK is the end
  private final Stream stream = new Stream();
  private Iterator<M> messages; // null between two streams
  private long start; // of the stream, in nanoseconds
  private Duration asked = Duration.ZERO; // how long the closing server asks to stay away
  private boolean silent; // the stream was given up
  private T next;

  Follower(Easel easel, Attempts attempts, com.google.protobuf.Duration heartbeatInterval, boolean hasGoal) {
    this.easel = easel;
    this.attempts = attempts;
    var interval = Times.duration(heartbeatInterval);
    var longest = interval.isZero() ? HEARTBEAT : interval;
    // The server refuses an interval that is too short, and is given the time to say so.
    this.silence = (longest.compareTo(SHORTEST) < 0 ? SHORTEST : longest).multipliedBy(3);
    this.hasGoal = hasGoal;
    CLEANER.register(this, stream::end);
  }

  /** The newest stream. It knows no watch, so that one that nobody reads any more ends its stream. */
  private static final class Stream {
    private volatile Context.CancellableContext call; // null before the first

    void end() {
      var newest = call;
      if (newest != null) {
        newest.cancel(null);
      }
    }
  }

  /** Opens a stream of what is left to see. */
  abstract Iterator<M> open(Easel easel, Attempts attempts);

  /** Hands a message to one of the methods below. */
  abstract void take(M message);

  final void heartbeat(io.github.easelgrpc.easel.v1.Heartbeat message) {
    var heartbeat = Heartbeat.of(message);
    attempts.heard(heartbeat);
    easel.hooks().heartbeat(heartbeat);
  }

  /** What the watch has heard last; null before. */
  final Heartbeat heard() {
    return attempts.heard();
  }

  final void closing(StreamClosing closing) {
    asked = Times.duration(closing.getRetryDelay());
  }

  /** Begins the back-off anew. */
  final void progress() {
    attempts.progress();
  }

  /** Yields a newer state. */
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
      attempts.progress(); // a stream that has lived so long is no failure in a row
    }
    var told = silent ? Status.UNAVAILABLE.withDescription("nothing has come for " + silence.toSeconds() + " s").asRuntimeException() : error;
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
      throw Status.UNAVAILABLE.withDescription("the server has ended a watch that has no goal").asRuntimeException();
    }
  }

  private void begin() {
    start = System.nanoTime();
    asked = Duration.ZERO;
    silent = false;
    var newest = Context.current().withCancellation();
    stream.call = newest;
    if (attempts.hasEnded()) { // perhaps before close could see this call
      newest.cancel(null);
    }
    var previous = newest.attach();
    try {
      messages = open(easel, attempts);
    } finally {
      newest.detach(previous);
    }
  }

  /** Waits for a message, and gives the stream up where none comes. The time that the caller takes is no silence. */
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
