package io.github.easelgrpc.easel;

import java.util.Iterator;

/**
 * What is there as it is, and then each newer state, until the goal where there is one. A watch goes on when a server restarts or
 * falls silent for three heartbeats; what a repeat can't mend is thrown. A watch repeats no state, that of many generations none of
 * the 10,000 that changed last. Close it to leave before the goal. A deadline, the Context and an interrupt end it with an exception.
 */
public interface Watch<T> extends Iterator<T>, AutoCloseable {
  /** Ends the watch, and its stream. Any thread may do so: the one that reads the watch finds that it has no next state. */
  @Override
  void close();
}
