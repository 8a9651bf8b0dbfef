package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.WatchEventsRequest;
import java.time.Duration;
import java.time.Instant;
import java.util.List;

/** The first event to read, and a filter. By default, all events from now on. */
public final class EventQuery {
  final WatchEventsRequest.Builder request = WatchEventsRequest.newBuilder().setHeartbeatInterval(new WatchOptions().heartbeat);

  /** Continues after the event with this token. The start is then ignored. */
  public EventQuery resumeToken(String token) {
    request.setResumeToken(token);
    return this;
  }

  /** Sets the time of the first event. */
  public EventQuery start(Instant time) {
    request.setStartTime(Times.timestamp(time));
    return this;
  }

  /** Selects types of events, such as easel.generation.succeeded. */
  public EventQuery types(String... types) {
    request.getFilterBuilder().addAllTypes(List.of(types));
    return this;
  }

  /** Selects the owner of the events. Only for operators. */
  public EventQuery owner(String owner) {
    request.getFilterBuilder().setOwner(owner);
    return this;
  }

  /** Sets the heartbeat interval, from 1 to 60 s (default: 10 s). After three silent intervals, the stream reconnects. */
  public EventQuery heartbeat(Duration interval) {
    request.setHeartbeatInterval(new WatchOptions().heartbeat(interval).heartbeat);
    return this;
  }
}
