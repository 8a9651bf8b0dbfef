package io.github.easelgrpc.easel;

import java.util.Iterator;

/**
 * An iteration over the current states of renders and each newer state. A watch of named renders ends when all of them are finished
 * (or settled, see {@link WatchOptions#untilSettled}). A watch continues if a server restarts or sends no message for three
 * heartbeat intervals. It throws an exception if a retry can't help, the limits are reached, the gRPC Context is cancelled or the
 * thread is interrupted. It never repeats a state; in a watch of many renders, this holds for the 10,000 that changed last. A watch
 * can be read only once. To end a watch early, close it, preferably with try-with-resources. Any thread may close a watch, and its
 * reader then gets no more states. If a watch is not closed, garbage collection ends its stream.
 */
public interface Watch<T> extends Iterable<T>, AutoCloseable {
  /** Returns the iterator over the remaining states. Each call returns the same iterator. */
  @Override
  Iterator<T> iterator();

  /** Ends the watch and its stream. */
  @Override
  void close();
}
