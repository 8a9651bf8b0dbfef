"""The retry logic for calls, with hooks and warnings."""

import logging
import math
import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, TypedDict, TypeVar

import grpc

from easel_grpc.errors import Error, OrderOutcome, Timeout, of
from easel_grpc.values import Heartbeat

E = TypeVar("E", bound=Error)

LONGEST = 10  # maximum back-off in seconds, before jitter
LONGEST_ASKED = 3600  # maximum delay in seconds before a retry; if the server requests a longer delay, the call fails
MOST_ASKED = 10  # a read fails after this many errors that contain a retry delay
WARN_AFTER = 5  # time in seconds after which a call that keeps failing causes a warning
WARN_INTERVAL = 60  # minimum interval in seconds between warnings about one method


class Limits(TypedDict, total=False):
    """Limits of a call.

    timeout is the total time in seconds for all attempts; math.inf means no limit. attempts is the number of consecutive failed
    attempts after which the call fails.
    """

    timeout: float | None
    attempts: int | None


def limits_of(options: Mapping[str, Any], kind: Any = Limits) -> Limits:
    """Returns the limits in a call's options. It raises TypeError if there are unknown options."""
    if unknown := options.keys() - kind.__annotations__.keys():
        raise TypeError(f"unexpected keyword arguments: {', '.join(sorted(unknown))}")
    return Limits(timeout=options.get("timeout"), attempts=options.get("attempts"))


class Kind(NamedTuple):
    """A kind of call, with its default limits."""

    timeout: float
    attempts: int
    is_read: bool = False


READ = Kind(60, 5, is_read=True)
ORDER = Kind(900, 100)
STREAM = Kind(math.inf, 100)  # a watch or a download, without a time limit; 100 failed attempts in a row take about 15 minutes


@dataclass
class Hooks:
    """A client's callbacks, logger and limits."""

    address: str
    on_retry: Callable[[Error, timedelta], object] | None
    on_heartbeat: Callable[[Heartbeat], object] | None
    on_key: Callable[[str], object] | None
    logger: "logging.Logger | logging.LoggerAdapter[Any]"
    closed: Any  # threading.Event or asyncio.Event that is set when the client is closed
    limits: Limits = field(default_factory=Limits)  # limits from the client's constructor
    _warned: dict[str, float] = field(default_factory=dict)  # time.monotonic() at the last warning, keyed by method
    lock: threading.Lock = field(default_factory=threading.Lock)

    def made_key(self) -> tuple[str, object]:
        """Creates an idempotency key, and passes it to on_key or logs it. It returns the key and the result of on_key."""
        key = str(uuid.uuid4())
        if self.on_key:
            return key, self.on_key(key)
        self.logger.info("ordering: idempotency_key=%s", key)
        return key, None

    def may_warn(self, method: str) -> bool:
        """Reports whether a warning about a method is due. If so, it records the time of the warning."""
        now = time.monotonic()
        with self.lock:
            if due := now - self._warned.get(method, -math.inf) >= WARN_INTERVAL:
                self._warned[method] = now
        return due


class Attempts:
    """Counts the attempts of one call, and decides whether and when the call is retried.

    A call that is created with a key is an order. Every error from an order contains the outcome over all its attempts.
    """

    def __init__(self, hooks: Hooks, kind: Kind, method: str, limits: Limits, *, key: str = "", generation_id: str = "") -> None:
        self.hooks = hooks
        self.kind = kind
        self.method = method
        self.key = key
        self.generation_id = generation_id
        client = hooks.limits if kind.timeout != math.inf else Limits()  # streams ignore the client's limits
        self.timeout = next(one for one in (limits.get("timeout"), client.get("timeout"), kind.timeout) if one is not None)
        self.most = limits.get("attempts") or (kind.is_read and client.get("attempts")) or kind.attempts
        self.begin()
        self.failures = 0
        self.heartbeat: Heartbeat | None = None
        self.outcome: OrderOutcome | None = "not_placed_by_this_call" if key else None
        self._last: Error | None = None  # last error that was not caused by the call's timeout
        self._spent = {True: 0, False: 0}  # numbers of failed attempts since the last success, keyed by whether the server requested a delay
        self._failing_since: float | None = time.monotonic()  # time in seconds when the failures began; None after a response
        self._warned = False

    def begin(self) -> None:
        """Starts the time limit of the call. The limit restarts for each page of results."""
        self.end = time.monotonic() + self.timeout

    def left(self) -> float | None:
        """Returns the remaining seconds, or None if there is no limit. It raises an error if the client is closed."""
        if self.hooks.closed.is_set():
            raise self.closed()
        return None if self.end == math.inf else max(self.end - time.monotonic(), 0)

    def answered(self) -> None:
        """Records a successful response and resets the back-off."""
        self.failures = 0
        self.heard()

    def heard(self) -> None:
        """Records a successful response. It does not reset the back-off."""
        if self._warned and self._failing_since is not None:
            self.hooks.logger.info("call recovered: method=%s after=%.1fs", self.method, time.monotonic() - self._failing_since)
        self._spent = {True: 0, False: 0}
        self._failing_since, self._warned = None, False

    def closed(self) -> Error:
        """Returns the error for a call that ends because the client is closed."""
        return self._told(Error("the client is closed", code=grpc.StatusCode.CANCELLED), self.outcome)

    def pause(self, cause: BaseException, *, asked: float = 0, ends: tuple[str, ...] | None = None) -> float:
        """Returns the delay in seconds before the next attempt, or raises the error if no attempt follows.

        By default, it raises every error that is not retryable. If the argument `ends` is set, it raises the errors with these
        codes instead.
        """
        error = self._of(cause)
        if self.hooks.closed.is_set():
            raise self.closed() from None
        if not isinstance(cause, (grpc.RpcError, Error)):
            raise cause
        if not error.is_retryable if ends is None else error.code.name in ends:
            raise error from None  # hides gRPC's error, which has the same details
        told = max(asked, error.retry_after.total_seconds() if error.retry_after else 0)
        delay: float = max(min(0.5 * 2**self.failures, LONGEST) * random.uniform(0.5, 1.5), told)
        self.failures = min(self.failures + 1, 8)
        self._spent[told > 0] += 1
        if told > LONGEST_ASKED or self._is_used_up():
            raise error from None  # hides gRPC's error, which has the same details
        if time.monotonic() + delay >= self.end:
            raise self._late(error) from self._last or error
        self._warn(error, delay)
        if self.hooks.on_retry:
            self.hooks.on_retry(error, timedelta(seconds=delay))
        return delay

    def _is_used_up(self) -> bool:
        if self.kind.is_read:
            return self._spent[True] >= MOST_ASKED or self._spent[False] >= self.most
        return sum(self._spent.values()) >= self.most

    def _warn(self, error: Error, delay: float) -> None:
        """Logs a warning if the next attempt starts at least five seconds after _failing_since.

        It logs no warning if a warning about the method was logged during the last minute.
        """
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        failing = now - self._failing_since
        if failing + delay >= WARN_AFTER and self.hooks.may_warn(self.method):
            self._warned = True
            self.hooks.logger.warning(
                "call still failing: method=%s address=%s failing_for=%.1fs retry_in=%.1fs error=%s", self.method, self.hooks.address, failing, delay, error
            )

    def _of(self, cause: BaseException) -> Error:
        """Converts an error to the exception for its reason, and sets the order's outcome over all attempts.

        Once this outcome is "unknown", it remains so until the server reports "not_placed".
        """
        error = of(cause, self.hooks.address)
        if self.end == math.inf or error.reason or error.code != grpc.StatusCode.DEADLINE_EXCEEDED:
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
        passed = self.timeout - (self.left() or 0)
        is_silent = self._failing_since is not None and not error.reason and error.code == grpc.StatusCode.DEADLINE_EXCEEDED
        last = f"{self.hooks.address} does not respond" if is_silent else error.args[0]
        text = f"timed out after {passed:.1f} s, because the next attempt would exceed the timeout of {self.timeout:g} s; last error: {last}"
        if self.heartbeat:
            text += f"; last heartbeat: {self.heartbeat.upstream_condition} {self.heartbeat.last_error}".rstrip()
        late = self._told(Timeout(text, code=grpc.StatusCode.DEADLINE_EXCEEDED, details=error.details), self.outcome)
        late.heartbeat = self.heartbeat
        return late
