"""What an error says, and whether another attempt is worth it."""

import random
import time
from typing import Any, Literal, cast

import google.rpc.error_details_pb2 as details_pb2  # type: ignore[import-untyped]
import google.rpc.status_pb2 as status_pb2  # type: ignore[import-untyped]
import grpc
import grpc.aio
from google.protobuf.message import Message

from easel import v1

OrderOutcome = Literal["unknown", "not_placed_by_this_call", "not_placed"]


class DamagedError(Exception):
    """Bytes of a download are not those that the server has sent."""


class FailedError(Exception):
    """A render was paid and came to nothing, or was deleted."""

    def __init__(self, generation: v1.Generation) -> None:
        super().__init__(f"{v1.State.Name(generation.state)}: {generation.failure_message}")
        self.generation = generation


def reason(error: BaseException) -> "v1.ErrorReason.ValueType":
    """Says why a call has failed: ERROR_REASON_UNSPECIFIED where that is not of Easel, or of a newer one."""
    name = _info(error).reason
    return v1.ErrorReason.Value(name) if name in v1.ErrorReason.keys() else v1.ErrorReason.ERROR_REASON_UNSPECIFIED


def retry_delay(error: BaseException) -> float | None:
    """Says how many seconds to wait before the next attempt, where the server has said so."""
    info = _detail(error, details_pb2.RetryInfo)
    return None if info is None else cast(float, info.retry_delay.ToTimedelta().total_seconds())


def order_outcome(error: BaseException) -> OrderOutcome:
    """Says what is known of an order that has failed: see CreateGeneration. Any error may leave it unknown."""
    return cast(OrderOutcome, _info(error).metadata.get("order_outcome", "unknown"))


def details(error: BaseException) -> list[Message]:
    """Gives the details of an error, each a message of google.rpc: ErrorInfo, RetryInfo, BadRequest and others."""
    sent = error.trailing_metadata() if isinstance(error, (grpc.Call, grpc.aio.AioRpcError)) else None
    found: list[Message] = []
    for packed in status_pb2.Status.FromString(dict(sent or ()).get("grpc-status-details-bin", b"")).details:
        if kind := getattr(details_pb2, packed.TypeName().removeprefix("google.rpc."), None):
            found.append(kind.FromString(packed.value))
    return found


def code(error: BaseException) -> grpc.StatusCode:
    """Gives the code of an error."""
    return error.code() if isinstance(error, (grpc.Call, grpc.aio.AioRpcError)) else grpc.StatusCode.UNKNOWN


LONGEST = 10  # seconds of back-off, before jitter


class Attempts:
    """Counts the attempts of one function, which has so many seconds for all of them."""

    def __init__(self, timeout: float | None = None) -> None:
        self.end = None if timeout is None else time.monotonic() + timeout
        self.failures = 0

    def left(self) -> float | None:
        return None if self.end is None else max(self.end - time.monotonic(), 0)

    def pause(self, error: Exception, asked: float = 0) -> float:
        """Gives the seconds before the next attempt, or raises the error where there is no time for one."""
        delay: float = max(min(0.5 * 2**self.failures, LONGEST) * random.uniform(0.5, 1.5), asked, retry_delay(error) or 0)
        self.failures = min(self.failures + 1, 8)
        if self.end is not None and time.monotonic() + delay >= self.end:
            raise error
        return delay


def final(error: BaseException) -> bool:
    """Says whether watching again can't mend an error."""
    return code(error).name in (
        *("NOT_FOUND", "UNAUTHENTICATED", "PERMISSION_DENIED"),
        *("INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNIMPLEMENTED"),
    )


def repeat_helps(error: BaseException) -> bool:
    """Says whether the same call again may mend an error. A reason outranks its code."""
    why = reason(error)
    if why == v1.ErrorReason.SUBMISSION_OUTCOME_UNKNOWN:
        return retry_delay(error) is not None  # else it is too late
    if why != v1.ErrorReason.ERROR_REASON_UNSPECIFIED:
        return why in _PASSING
    return code(error).name in _PASSING_CODES or retry_delay(error) is not None


_PASSING_CODES = ("UNAVAILABLE", "ABORTED", "INTERNAL", "UNKNOWN", "CANCELLED", "DEADLINE_EXCEEDED")
_PASSING = (
    *(v1.ErrorReason.SUBMISSION_IN_PROGRESS, v1.ErrorReason.CONTENT_NOT_READY, v1.ErrorReason.CONTENT_INTERRUPTED),
    *(v1.ErrorReason.UPSTREAM_RATE_LIMITED, v1.ErrorReason.UPSTREAM_UNAVAILABLE, v1.ErrorReason.UPSTREAM_MALFORMED_RESPONSE),
    *(v1.ErrorReason.UNAVAILABLE, v1.ErrorReason.LEDGER_UNAVAILABLE, v1.ErrorReason.OVERLOADED, v1.ErrorReason.STREAM_QUOTA_EXCEEDED),
    *(v1.ErrorReason.READER_TOO_SLOW, v1.ErrorReason.SERVER_DRAINING, v1.ErrorReason.STREAM_MAX_AGE),
    *(v1.ErrorReason.REQUEST_BODY_TIMEOUT, v1.ErrorReason.CANCELLED, v1.ErrorReason.DEADLINE_EXCEEDED, v1.ErrorReason.INTERNAL),
)


def _info(error: BaseException) -> Any:
    info = _detail(error, details_pb2.ErrorInfo)
    return info if info is not None and info.domain == "easel" else details_pb2.ErrorInfo()


def _detail(error: BaseException, kind: Any) -> Any:
    return next((one for one in details(error) if isinstance(one, kind)), None)
