package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.WatchEventsRequest;
import java.time.Duration;
import java.time.Instant;
import java.util.List;

/** Selects events by a filter and by the position of the first event. The default selects all events from now on. */
public final class EventQuery {
  final WatchEventsRequest.Builder request = WatchEventsRequest.newBuilder().setHeartbeatInterval(new WatchOptions().heartbeat);

  /** Sets the token of the last event that the caller has processed. The watch continues after this event, and ignores {@link #start}. */
  public EventQuery resumeToken(String token) {
    request.setResumeToken(token);
    return this;
  }

  /** Sets the time from which events are read. The default is now. */
  public EventQuery start(Instant time) {
    request.setStartTime(Times.timestamp(time));
    return this;
  }

  /** Selects the events of these types, such as easel.generation.succeeded. The default is all types. */
  public EventQuery types(String... types) {
    request.getFilterBuilder().addAllTypes(List.of(types));
    return this;
  }

  /** Selects the events of this owner. Only an operator may select an owner. */
  public EventQuery owner(String owner) {
    request.getFilterBuilder().setOwner(owner);
    return this;
  }

  /** Sets the heartbeat interval, from 1 to 60 s (default: 10 s). If no message arrives for three intervals, the watch reconnects. */
  public EventQuery heartbeat(Duration interval) {
    request.setHeartbeatInterval(new WatchOptions().heartbeat(interval).heartbeat);
    return this;
  }
}
