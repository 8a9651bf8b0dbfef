package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.WatchEventsRequest;
import io.github.easelgrpc.easel.v1.WatchEventsResponse;
import java.util.Iterator;

/** A watch of an owner's events. Each new stream continues after the last message. */
final class EventsWatch extends Follower<WatchEventsResponse, Event> {
  private final WatchEventsRequest.Builder request; // request for the next stream

  EventsWatch(Easel easel, WatchEventsRequest request) {
    super(easel, new Attempts(easel, Attempts.Kind.STREAM, "WatchEvents", "", ""), request.getHeartbeatInterval(), false);
    this.request = request.toBuilder();
  }

  @Override
  Iterator<WatchEventsResponse> open(Easel easel, Attempts attempts) {
    return attempts.on(easel.generations()).watchEvents(request.build());
  }

  @Override
  void take(WatchEventsResponse message) {
    request.setResumeToken(message.getResumeToken());
    if (message.hasHeartbeat()) {
      heartbeat(message.getHeartbeat());
    } else if (message.hasClosing()) {
      closing(message.getClosing());
    } else if (message.hasEvent()) {
      progress();
      newer(Event.of(message));
    }
  }
}
