"""When another attempt is made, and who hears of it."""

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import grpc

from easel.errors import Error, OrderOutcome, Timeout, of
from easel.values import Heartbeat

E = TypeVar("E", bound=Error)

LONGEST = 10  # seconds of back-off, before jitter
LONGEST_ASKED = 3600  # seconds that a server may ask for: after more, the caller decides
MOST = 5  # attempts of a read
MOST_ASKED = 10  # attempts of a read where the server asks for them

logging.getLogger("easel").addHandler(logging.NullHandler())


@dataclass
class Hooks:
    """What a client tells beside its results."""

    address: str
    on_retry: Callable[[Error, timedelta], object] | None
    on_heartbeat: Callable[[Heartbeat], object] | None
    on_key: Callable[[str], object] | None
    logger: "logging.Logger | logging.LoggerAdapter[Any]"
    closed: Any  # the Event of threading or of asyncio: whether the client is closed
    _away_since: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def made_key(self) -> tuple[str, object]:
        """Makes an idempotency key and hands it over, with what the caller's function gives. An error of it stops the order."""
        key = str(uuid.uuid4())
        if self.on_key:
            return key, self.on_key(key)
        self.logger.info("the idempotency key of the next order is %s", key)
        return key, None

    def retry(self, error: Error, delay: float) -> None:
        """Hears of an error that another attempt follows. Most with a reason are answers."""
        if error.code != grpc.StatusCode.UNAVAILABLE or error.reason not in ("", "SERVER_DRAINING", "UNAVAILABLE"):
            self.answered()
        else:
            with self.lock:
                if gone := self._away_since is None:
                    self._away_since = time.monotonic()
            if gone:
                self.logger.warning("Easel is away from %s, and is tried again: %s", self.address, error)
        if self.on_retry:
            self.on_retry(error, timedelta(seconds=delay))

    def answered(self) -> None:
        """Hears of every answer."""
        if self._away_since is None:
            return
        with self.lock:
            since, self._away_since = self._away_since, None
        if since is not None:
            self.logger.info("Easel is back at %s after %.1f s", self.address, time.monotonic() - since)


class Attempts:
    """Counts the attempts of one function, which has so many seconds for all of them.

    With a key it is an order, of which each error says what is known after all its attempts.
    """

    def __init__(self, hooks: Hooks, timeout: float | None = None, *, key: str = "", generation_id: str = "", bounded: bool = False) -> None:
        self.hooks = hooks
        self.timeout = timeout
        self.key = key
        self.generation_id = generation_id
        self.bounded = bounded
        self.end = None if timeout is None else time.monotonic() + timeout
        self.failures = 0
        self.heartbeat: Heartbeat | None = None
        self.outcome: OrderOutcome | None = "not_placed_by_this_call" if key else None
        self._last: Error | None = None  # that the end of the time has not made
        self._spent = {True: 0, False: 0}  # attempts, by whether the server asks for another

    def left(self) -> float | None:
        """Gives the seconds for the next attempt, unless the client is closed."""
        if self.hooks.closed.is_set():
            raise self.closed()
        return None if self.end is None else max(self.end - time.monotonic(), 0)

    def answered(self) -> None:
        """Begins the back-off anew."""
        self.failures = 0
        self._spent = {True: 0, False: 0}
        self.hooks.answered()

    def closed(self) -> Error:
        """Makes the error of what a closed client does not go on with."""
        return self._told(Error("the client is closed", code=grpc.StatusCode.CANCELLED), self.outcome)

    def pause(self, cause: BaseException, *, asked: float = 0, ends: tuple[str, ...] | None = None) -> float:
        """Gives the seconds before the next attempt, or raises what no attempt can mend: the codes of ends, where there are any."""
        error = self._of(cause)
        if self.hooks.closed.is_set():
            raise self.closed() from cause
        if not isinstance(cause, (grpc.RpcError, Error)):
            raise cause
        if not error.is_retryable if ends is None else error.code.name in ends:
            raise error from (None if error is cause else cause)
        told = max(asked, error.retry_after.total_seconds() if error.retry_after else 0)
        delay: float = max(min(0.5 * 2**self.failures, LONGEST) * random.uniform(0.5, 1.5), told)
        self.failures = min(self.failures + 1, 8)
        if self.end is not None and time.monotonic() + delay >= self.end:
            raise self._late(error) from self._last or error
        self._spent[told > 0] += 1
        if told > LONGEST_ASKED or self.bounded and (self._spent[True] >= MOST_ASKED or self._spent[False] >= MOST):
            raise error from (None if error is cause else cause)
        self.hooks.retry(error, delay)
        return delay

    def _of(self, cause: BaseException) -> Error:
        """Gives an error its class, and says in it what is known of the order. Only a durable ledger knows that no earlier attempt has placed it."""
        error = of(cause)
        if self.end is None or error.reason or error.code != grpc.StatusCode.DEADLINE_EXCEEDED:
            self._last = error
        if self.outcome and ("order_outcome" not in error.metadata or (error.order_outcome, self.outcome) == ("not_placed_by_this_call", "unknown")):
            self.outcome = "unknown"
        elif self.outcome:
            self.outcome = error.order_outcome
        return self._told(error, self.outcome)

    def _told(self, error: E, outcome: OrderOutcome | None) -> E:
        error.key, error.generation_id = self.key, self.generation_id
        if outcome:
            error.metadata["order_outcome"] = outcome
        return error

    def _late(self, error: Error) -> Timeout:
        error = self._last or error
        text = f"not done within {self.timeout:g} s, after {error}"
        if self.heartbeat:
            text += f"; the last heartbeat: {self.heartbeat.upstream_condition} {self.heartbeat.last_error}".rstrip()
        late = self._told(Timeout(text, code=grpc.StatusCode.DEADLINE_EXCEEDED, details=error.details), self.outcome)
        late.heartbeat = self.heartbeat
        return late
