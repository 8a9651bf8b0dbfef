package io.github.easelgrpc.easel;

import java.util.Iterator;

/**
 * An iterable over the states of one or more renders, or over events. A watch of renders yields the current states and then
 * each newer state. A watch with generation IDs ends when all of these renders are finished (or settled, see
 * {@link WatchOptions#untilSettled}). A watch reconnects if a server restarts or sends no message for three heartbeat
 * intervals. It throws an exception if a retry can't help, the limits of the call are reached, the gRPC Context is canceled or
 * the thread is interrupted. A watch of one render never repeats a state. A watch of many renders never repeats a state of the
 * 10,000 renders that changed most recently. A watch can be read only once. To end a watch early, close it, preferably with
 * try-with-resources. Any thread may close a watch; the loop then ends without an exception. If a watch is not closed, garbage
 * collection ends its stream.
 */
public interface Watch<T> extends Iterable<T>, AutoCloseable {
  /** Returns the iterator over the remaining states or events. Each call returns the same iterator. */
  @Override
  Iterator<T> iterator();

  /** Ends the watch and its stream. */
  @Override
  void close();
}
