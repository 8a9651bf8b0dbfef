package io.github.easelgrpc.easel;

import java.util.Iterator;

/**
 * What is there as it is, and then each newer state, until the goal where there is one. A watch goes on when a server restarts or
 * falls silent for three heartbeats; what a repeat can't mend is thrown. A watch repeats no state, that of many generations none of
 * the 10,000 that changed last. It is read once. Close it to leave before the goal, best by try-with-resources: any
 * thread may do so, and the one that reads finds that there is no next state. One that is dropped ends its stream when it is collected as
 * garbage. A timeout, the gRPC Context and an interrupt end it with an exception.
 */
public interface Watch<T> extends Iterable<T>, AutoCloseable {
  /** The states that are left to see: the same each time. */
  @Override
  Iterator<T> iterator();

  /** Ends the watch, and its stream. */
  @Override
  void close();
}
