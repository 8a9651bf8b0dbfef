"""Watches: code that the clients for threads and for asyncio share."""

import time
from typing import Any, Generic, TypeVar

import grpc

from easel_grpc import v1
from easel_grpc.attempts import LONGEST, Attempts
from easel_grpc.errors import Unavailable, seconds_of
from easel_grpc.v1.reasons import WATCH_ENDS
from easel_grpc.values import Event, Heartbeat, Render, event_of, of

MOST_ETAGS = 10_000  # maximum number of etags that a watch stores
MOST_KNOWN_ETAGS = 1000  # maximum number of etags in a request
SHORTEST = 1  # minimum heartbeat interval in the contract, in seconds

T = TypeVar("T")


class Progress(Generic[T]):
    """The progress of a watch, which can span several streams."""

    has_goal = True  # whether the watch is complete when the server ends a stream with OK

    def __init__(self, request: Any, attempts: Attempts) -> None:
        self.request = request  # request for the next stream
        # An interval below the minimum counts as the minimum, so that the stream is not canceled before the server's rejection
        # of the interval arrives.
        self.silence = 3 * max(request.heartbeat_interval.ToTimedelta().total_seconds(), SHORTEST)
        self.attempts = attempts

    def begin(self) -> Any:
        """Records the start of a stream and returns the request for the stream."""
        self.began, self.asked = time.monotonic(), 0.0
        return self.request

    def take(self, message: Any) -> T | None:
        """Processes a message and returns the message's state, or None if there is no new state."""
        self.attempts.heard()
        self.asked = seconds_of(message.closing.retry_delay)
        if message.HasField("heartbeat"):
            self.attempts.heartbeat = of(Heartbeat, message.heartbeat)
            if self.attempts.hooks.on_heartbeat:
                self.attempts.hooks.on_heartbeat(self.attempts.heartbeat)
        return self.state(message)

    def state(self, message: Any) -> T | None:
        """Returns the new state in a message, or None if the message has no new state."""
        return self.newer(message.update) if message.HasField("update") else None

    def newer(self, update: Any) -> T | None:
        """Returns the state that the watch yields for an update, or None if it yields none. A new state resets the back-off."""
        raise NotImplementedError

    def pause(self, error: Exception | None = None) -> float:
        """Returns the delay in seconds before the next stream, or raises the error if there is no next stream."""
        if time.monotonic() - self.began > LONGEST:
            self.attempts.failures = 0
        return self.attempts.pause(error or _lost("the server ended the stream"), asked=self.asked, ends=tuple(WATCH_ENDS))

    def silent(self) -> Unavailable:
        """Returns the error for a stream that was silent for three heartbeat intervals."""
        return _lost(f"no message for {self.silence:g} s")


def _lost(text: str) -> Unavailable:
    return Unavailable(text, code=grpc.StatusCode.UNAVAILABLE)


class GenerationProgress(Progress[Render]):
    """The progress of a watch of one generation."""

    def newer(self, update: v1.GenerationUpdate) -> Render:
        if update.generation.etag != self.request.known_etag:
            self.attempts.failures = 0
        self.request.known_etag = update.generation.etag
        heartbeat = self.attempts.heartbeat
        return of(Render, update.generation, typical_remaining=heartbeat and heartbeat.typical_remaining)


class GenerationsProgress(Progress[Render]):
    """The progress of a watch of many generations."""

    def __init__(self, request: v1.WatchGenerationsRequest, attempts: Attempts) -> None:
        super().__init__(request, attempts)
        self.has_goal = bool(request.generation_ids)
        self.etags = _Etags(request)

    def begin(self) -> Any:
        self.request.known_etags.clear()
        self.request.known_etags.update(self.etags.wanted())
        return super().begin()

    def newer(self, update: v1.GenerationUpdate) -> Render | None:
        if not self.etags.add(update.generation):
            return None
        self.attempts.failures = 0
        return of(Render, update.generation)


class EventsProgress(Progress[Event]):
    """The progress of a watch of events."""

    has_goal = False

    def state(self, message: v1.WatchEventsResponse) -> Event | None:
        self.request.resume_token = message.resume_token
        if not message.HasField("event"):
            return None
        self.attempts.failures = 0
        return event_of(message)


class _Etags:
    """The etags of the generations in a watch. If there are more than MOST_ETAGS, the oldest etag is removed."""

    def __init__(self, request: v1.WatchGenerationsRequest) -> None:
        self.named = bool(request.generation_ids)
        # Maps each ID to the etag and a flag. If the flag is true, wanted() omits the generation. The generation that changed
        # most recently is last.
        self.known = {one: (etag, False) for one, etag in list(request.known_etags.items())[-MOST_ETAGS:]}

    def wanted(self) -> dict[str, str]:
        """Returns the etags of the most recent changes for the next request, at most MOST_KNOWN_ETAGS.

        If the request lists no generation IDs, the etags of succeeded and refunded renders are omitted. Each of them could
        cost the server an extra request to the catalog.
        """
        wanted = [(one, etag) for one, (etag, finished) in self.known.items() if not finished]
        return dict(wanted[-MOST_KNOWN_ETAGS:])

    def add(self, generation: v1.Generation) -> bool:
        """Stores the etag of an update, and reports whether the update is new.

        If the watch has no list of generation IDs, the etag of a deleted generation is removed.
        """
        before, _ = self.known.get(generation.generation_id, (None, False))
        if before == generation.etag:
            return False
        self.known.pop(generation.generation_id, None)
        if self.named or generation.state != v1.State.STATE_DELETED:
            finished = not self.named and generation.state in (v1.State.STATE_SUCCEEDED, v1.State.STATE_REFUNDED)
            self.known[generation.generation_id] = generation.etag, finished
        if len(self.known) > MOST_ETAGS:
            del self.known[next(iter(self.known))]
        return True
