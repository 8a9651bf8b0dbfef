package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.WatchEventsRequest;
import java.time.Duration;
import java.time.Instant;
import java.util.List;

/** The first event to read, and a filter. The default selects all events from now on. */
public final class EventQuery {
  final WatchEventsRequest.Builder request = WatchEventsRequest.newBuilder().setHeartbeatInterval(new WatchOptions().heartbeat);

  /** Continues after the event with this token. If a token is set, the start is ignored. */
  public EventQuery resumeToken(String token) {
    request.setResumeToken(token);
    return this;
  }

  /** Sets the time from which events are read. */
  public EventQuery start(Instant time) {
    request.setStartTime(Times.timestamp(time));
    return this;
  }

  /** Selects the types of the events, such as easel.generation.succeeded. */
  public EventQuery types(String... types) {
    request.getFilterBuilder().addAllTypes(List.of(types));
    return this;
  }

  /** Selects the owner of the events. Only an operator may set it. */
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
