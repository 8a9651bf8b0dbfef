package io.github.easelgrpc.easel;

import java.util.Iterator;

/**
 * The current states, and then each newer state, until the goal if there is one. A watch continues if a server restarts or is
 * silent for three heartbeats, and throws errors that a retry can't fix. It repeats no state; a watch of many generations repeats
 * none of the 10,000 that changed last. It can be read once. To leave before the goal, close it, best with try-with-resources.
 * Any thread may close it. Its reader then gets no further state. An abandoned watch ends its stream when it is collected.
 * A timeout, the gRPC Context and an interrupt end it with an exception.
 */
public interface Watch<T> extends Iterable<T>, AutoCloseable {
  /** Returns the iterator of the remaining states, which is the same in each call. */
  @Override
  Iterator<T> iterator();

  /** Ends the watch and its stream. */
  @Override
  void close();
}
