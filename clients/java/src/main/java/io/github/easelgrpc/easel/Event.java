package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.WatchEventsResponse;
import java.time.Instant;
import java.util.Optional;

/**
 * A change to a render or a budget. It has the same ID and type as the webhook for this change.
 *
 * @param render absent if the event reports a budget
 * @param budget absent if the event reports a render
 * @param resumeToken the token for {@link EventQuery#resumeToken}, to continue after this event; store it after you have
 * processed the event
 */
public record Event(
    String eventId, String type, Instant createTime, String owner, Optional<Render> render, Optional<Account.Budget> budget, String resumeToken,
    io.github.easelgrpc.easel.v1.Event raw) {

  static Event of(WatchEventsResponse message) {
    var raw = message.getEvent();
    return new Event(raw.getEventId(), raw.getType(), Times.instant(raw.getCreateTime()), raw.getOwner(),
        raw.hasGeneration() ? Optional.of(new Render(raw.getGeneration(), null)) : Optional.empty(),
        raw.hasBudget() ? Optional.of(Account.budget(raw.getBudget())) : Optional.empty(), message.getResumeToken(), raw);
  }
}
