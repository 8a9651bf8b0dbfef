package io.github.easelgrpc.easel;

import java.util.Iterator;

/**
 * The current states, and then each newer state, until the goal if there is one. A watch continues if a server restarts or is
 * silent for three heartbeat intervals, and throws an exception only if a retry can't help. It never repeats a state; a watch of
 * many generations never repeats a state of the 10,000 that changed last. A watch can be read once. To leave it before the goal,
 * close it, preferably with try-with-resources. Any thread may close a watch; the reader then gets no more states. An abandoned
 * watch ends its stream when it is garbage-collected. A timeout, the gRPC Context or an interrupt ends it with an exception.
 */
public interface Watch<T> extends Iterable<T>, AutoCloseable {
  /** Returns the iterator over the remaining states. Each call returns the same iterator. */
  @Override
  Iterator<T> iterator();

  /** Ends the watch and its stream. */
  @Override
  void close();
}
