package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.WatchUntil;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** Options of a watch. */
public final class WatchOptions {
  WatchUntil until = WatchUntil.WATCH_UNTIL_TERMINAL;
  final Map<String, String> knownEtags = new HashMap<>();
  Filter filter = new Filter();
  com.google.protobuf.Duration heartbeat = com.google.protobuf.Duration.newBuilder().setSeconds(10).build();

  /** Continues until the cost is final, because a refund may follow a failure. */
  public WatchOptions untilSettled() {
    until = WatchUntil.WATCH_UNTIL_SETTLED;
    return this;
  }

  /** Omits the states with these etags. The keys of the map are generation IDs. */
  public WatchOptions knownEtags(Map<String, String> etags) {
    knownEtags.putAll(etags);
    return this;
  }

  /** Filters the renders in a watch of many renders. */
  public WatchOptions filter(Filter filter) {
    this.filter = filter;
    return this;
  }

  /** Sets the heartbeat interval, from 1 to 60 s (default: 10 s). After three silent intervals, the watch reconnects. */
  public WatchOptions heartbeat(Duration interval) {
    heartbeat = com.google.protobuf.Duration.newBuilder().setSeconds(interval.getSeconds()).setNanos(interval.getNano()).build();
    return this;
  }
}
