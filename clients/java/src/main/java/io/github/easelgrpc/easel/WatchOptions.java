package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.WatchUntil;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** Options for a watch. */
public final class WatchOptions {
  WatchUntil until = WatchUntil.WATCH_UNTIL_TERMINAL;
  final Map<String, String> knownEtags = new HashMap<>();
  Filter filter = new Filter();
  com.google.protobuf.Duration heartbeat = com.google.protobuf.Duration.newBuilder().setSeconds(10).build();

  /** Continues the watch until the cost is final, because a finished render may still be refunded. */
  public WatchOptions untilSettled() {
    until = WatchUntil.WATCH_UNTIL_SETTLED;
    return this;
  }

  /** Sets the etags of the states that the caller already has, keyed by generation ID. The watch omits these states. */
  public WatchOptions knownEtags(Map<String, String> etags) {
    knownEtags.putAll(etags);
    return this;
  }

  /** Limits a watch of many renders to the renders that match the filter. */
  public WatchOptions filter(Filter filter) {
    this.filter = filter;
    return this;
  }

  /**
   * Sets the heartbeat interval, from 1 to 60 s (default: 10 s). If no message arrives for three intervals, the watch
   * reconnects.
   */
  public WatchOptions heartbeat(Duration interval) {
    heartbeat = com.google.protobuf.Duration.newBuilder().setSeconds(interval.getSeconds()).setNanos(interval.getNano()).build();
    return this;
  }
}
