"""When another attempt is made, and who hears of it."""

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import grpc

from easel.errors import Error, Timeout, of
from easel.values import Heartbeat

LONGEST = 10  # seconds of back-off, before jitter

logging.getLogger("easel").addHandler(logging.NullHandler())


@dataclass
class Hooks:
    """What a client tells beside its results."""

    address: str
    on_retry: Callable[[Error, timedelta], object] | None
    on_heartbeat: Callable[[Heartbeat], object] | None
    on_key: Callable[[str], object] | None
    logger: "logging.Logger | logging.LoggerAdapter[Any]"
    _away_since: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def made_key(self) -> tuple[str, object]:
        """Makes an idempotency key and hands it over, with what the caller's function gives."""
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
            with self._lock:
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
        with self._lock:
            since, self._away_since = self._away_since, None
        if since is not None:
            self.logger.info("Easel is back at %s after %.1f s", self.address, time.monotonic() - since)


class Attempts:
    """Counts the attempts of one function, which has so many seconds for all of them."""

    def __init__(self, hooks: Hooks, timeout: float | None = None, key: str = "") -> None:
        self.hooks = hooks
        self.timeout = timeout
        self.key = key
        self.end = None if timeout is None else time.monotonic() + timeout
        self.failures = 0
        self.heartbeat: Heartbeat | None = None

    def left(self) -> float | None:
        return None if self.end is None else max(self.end - time.monotonic(), 0)

    def answered(self) -> None:
        """Begins the back-off anew."""
        self.failures = 0
        self.hooks.answered()

    def pause(self, cause: Exception, *, asked: float = 0, ends: tuple[str, ...] | None = None) -> float:
        """Gives the seconds before the next attempt, or raises what no attempt can mend: the codes of ends, where there are any."""
        error = of(cause, self.key)
        if not error.is_retryable if ends is None else error.code.name in ends:
            raise error from (None if error is cause else cause)
        told = error.retry_after.total_seconds() if error.retry_after else 0
        delay: float = max(min(0.5 * 2**self.failures, LONGEST) * random.uniform(0.5, 1.5), asked, told)
        self.failures = min(self.failures + 1, 8)
        if self.end is not None and time.monotonic() + delay >= self.end:
            if error.reason:  # which says more than that the time is over
                raise error from cause
            raise self._late(error) from error
        self.hooks.retry(error, delay)
        return delay

    def _late(self, error: Error) -> Timeout:
        text = f"not done within {self.timeout:g} s, after {error}"
        if self.heartbeat:
            text += f"; the last heartbeat: {self.heartbeat.upstream_condition} {self.heartbeat.last_error}".rstrip()
        late = Timeout(text, code=grpc.StatusCode.DEADLINE_EXCEEDED, details=error.details, key=self.key)
        late.heartbeat = self.heartbeat
        return late
