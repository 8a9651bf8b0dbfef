package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.WatchUntil;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** Changes a watch. */
public final class WatchOptions {
  WatchUntil until = WatchUntil.WATCH_UNTIL_TERMINAL;
  final Map<String, String> knownEtags = new HashMap<>();
  Filter filter = new Filter();
  com.google.protobuf.Duration heartbeat = com.google.protobuf.Duration.newBuilder().setSeconds(10).build();

  /** Continues until the cost is final: a refund may follow a failure. */
  public WatchOptions untilSettled() {
    until = WatchUntil.WATCH_UNTIL_SETTLED;
    return this;
  }

  /** Leaves out the states whose etags are known, by the ids of their renders. */
  public WatchOptions knownEtags(Map<String, String> etags) {
    knownEtags.putAll(etags);
    return this;
  }

  /** Chooses among the renders of a watch of many. */
  public WatchOptions filter(Filter filter) {
    this.filter = filter;
    return this;
  }

  /** The longest silence of the server, 1 to 60 s. After three of them the stream is given up. Without it 10 s. */
  public WatchOptions heartbeat(Duration interval) {
    heartbeat = com.google.protobuf.Duration.newBuilder().setSeconds(interval.getSeconds()).setNanos(interval.getNano()).build();
    return this;
  }
}
