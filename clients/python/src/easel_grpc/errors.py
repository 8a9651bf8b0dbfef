"""Error classes. Each kind of error that you would handle differently has its own class."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, NamedTuple, cast

import google.rpc.error_details_pb2 as details_pb2  # type: ignore[import-untyped]
import google.rpc.status_pb2 as status_pb2  # type: ignore[import-untyped]
import grpc
import grpc.aio
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp

from easel_grpc.v1.reasons import CODES, REASONS
from easel_grpc.values import Heartbeat, Render

OrderOutcome = Literal["unknown", "not_placed_by_this_call", "not_placed"]


class FieldViolation(NamedTuple):
    """The name of an invalid field in the request, and a description of the problem."""

    field: str
    description: str


class Error(Exception):
    """The base class of all errors in this package."""

    is_retryable = False  # whether a retry of the call may succeed

    def __init__(
        self, message: str, *, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN, details: Iterable[Message] = (), key: str = "", generation_id: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.details = tuple(details)  # google.rpc messages
        self.key = key  # idempotency key of the order that failed, or of the order whose watch failed; empty for other calls
        self.generation_id = generation_id  # ID of the render; empty if unknown
        info = self._detail("ErrorInfo")
        ours = info is not None and info.domain == "easel"
        self.reason: str = info.reason if ours else ""  # name of an ErrorReason; empty if the error is not from Easel
        self.metadata: dict[str, str] = dict(info.metadata) if ours else {}
        again = self._detail("RetryInfo")
        delay = seconds_of(again.retry_delay) if again else 0
        self.retry_after = timedelta(seconds=delay) if delay > 0 else None
        bad = self._detail("BadRequest")
        self.field_violations = tuple(FieldViolation(one.field, one.description) for one in (bad.field_violations if bad else ()))
        request = self._detail("RequestInfo")
        self.request_id: str = request.request_id if request else ""

    @property
    def order_outcome(self) -> OrderOutcome | None:
        """Returns an order's outcome over all attempts, or None for other calls.

        Keep the idempotency key unless the outcome is "not_placed".
        """
        return cast(OrderOutcome | None, self.metadata.get("order_outcome"))

    def __str__(self) -> str:
        """Returns the message and, for an order, its idempotency key."""
        return super().__str__() + (f" (idempotency key {self.key})" if self.key else "")

    def _detail(self, name: str) -> Any:
        return next((one for one in self.details if one.DESCRIPTOR.name == name), None)

    def _cents(self, name: str) -> int | None:
        value = self.metadata.get(name, "")
        return int(value) if value.isdecimal() else None


class InvalidRequest(Error):
    """The request is invalid. field_violations contains the invalid fields."""


class Unauthenticated(Error):
    """The API key or token is missing or rejected."""


class PermissionDenied(Error):
    """The caller does not have permission for this call."""


class NotFound(Error):
    """The render or model does not exist, or this caller may not see it."""


class InsufficientBalance(Error):
    """The balance does not cover the price."""


class PriceAboveLimit(Error):
    """The price is above max_cost_cents."""

    @property
    def price_cents(self) -> int | None:
        return self._cents("price_cents")


class BudgetExceeded(Error):
    """The budget of the team or of a label value does not cover the price. The budget is reset at reset_time."""

    @property
    def price_cents(self) -> int | None:
        return self._cents("price_cents")

    @property
    def remaining_cents(self) -> int | None:
        return self._cents("remaining_cents")

    @property
    def window(self) -> str:
        return self.metadata.get("window", "")

    @property
    def label_name(self) -> str:
        """Returns the name of the label whose budget is exceeded, or an empty string if no label's budget is exceeded."""
        return self.metadata.get("label_name", "")

    @property
    def label_value(self) -> str:
        """Returns the value of the label whose budget is exceeded, or an empty string if no label's budget is exceeded."""
        return self.metadata.get("label_value", "")

    @property
    def reset_time(self) -> datetime | None:
        time = Timestamp()
        try:
            time.FromJsonString(self.metadata.get("reset_time", ""))
        except ValueError:
            return None
        return time.ToDatetime(timezone.utc)


class OrderExpired(Error):
    """The order's expire time has passed, so Easel does not send the order to the catalog.

    If order_outcome is "unknown", an earlier attempt may have placed the order.
    """


class DailyCapReached(Error):
    """The API key has reached its daily cap in the catalog."""


class IdempotencyKeyReused(Error):
    """The idempotency key was used for another order."""


class OutcomeUnknown(Error):
    """The order may or may not exist. Keep its idempotency key, and send the order again with the same key."""


class NotReady(Error):
    """The render is not finished, or its result does not exist yet."""


class NoContent(Error):
    """The render has no file and never will have one."""


class ContentChanged(Error):
    """The file has changed since the download started."""


class Unavailable(Error):
    """Easel or the catalog is temporarily unavailable."""


class ServerFault(Error):
    """The call failed for a problem that only the server's operator can fix."""


class Timeout(Error, TimeoutError):
    """The call's timeout has passed. The error has the details of the last failure and, for a watch, the last heartbeat."""

    heartbeat: Heartbeat | None = None


class RenderFailed(Error):
    """The render is finished but did not succeed."""

    render: Render


class Damaged(Error):
    """Downloaded bytes are damaged or missing."""


_CLASSES = {kind.__name__: kind for kind in Error.__subclasses__()}


def _plain(text: str, address: str) -> str:
    """Returns a clearer text if the given text reports that the connection to the address failed. Otherwise, it returns the text unchanged."""
    if "WRONG_VERSION_NUMBER" in text:
        return "server does not speak TLS; use http:// in the address"
    if "http1.x server" in text:
        return "server speaks HTTP/1.1 and not gRPC; use the gRPC address of Easel"
    if "ping timeout" in text:
        return f"{address} does not respond"
    if failed := re.search(r"last error: \w+: (?:ipv[46]:\S+: )?(?:Failed to connect to remote host: )?(.*)", text):
        return f"connection to {address} failed: {failed[1]}"
    return text


def of(error: BaseException, address: str) -> Error:
    """Converts a gRPC error to the exception for its reason. address is the address of the server."""
    if isinstance(error, Error):
        return error
    code, text = grpc.StatusCode.UNKNOWN, str(error)
    if isinstance(error, (grpc.Call, grpc.aio.AioRpcError)):
        code, text = error.code(), _plain(error.details() or "", address)
    found = Error(text, code=code, details=_details(error))
    row = REASONS.get(found.reason) or CODES[code.name]
    made = _CLASSES[row["class"]](f"{found.reason or code.name}: {text}", code=code, details=found.details)
    made.is_retryable = row["again"] == "yes" or (row["again"] == "if_told" and made.retry_after is not None)
    return made


def failed(render: Render, key: str) -> RenderFailed:
    """Returns the error for a render that is finished but did not succeed."""
    error = RenderFailed(f"{render.state}: {render.failure_message}", key=key, generation_id=render.generation_id)
    error.render = render
    return error


def seconds_of(duration: Duration) -> float:
    """Returns a duration in seconds, at most 1e12.

    The result is not a timedelta, because a timedelta can't store every duration that a server may send.
    """
    return min(duration.seconds + duration.nanos / 1e9, 1e12)


def _details(error: BaseException) -> list[Message]:
    """Returns the details of an error, or an empty list if they can't be parsed."""
    try:
        return [*_parsed(error)]
    except DecodeError:
        return []


def _parsed(error: BaseException) -> Iterable[Message]:
    sent = error.trailing_metadata() if isinstance(error, (grpc.Call, grpc.aio.AioRpcError)) else None
    packed = {name: value for name, value in sent or ()}.get("grpc-status-details-bin", b"")
    for one in status_pb2.Status.FromString(packed).details:
        if kind := getattr(details_pb2, one.TypeName().removeprefix("google.rpc."), None):
            yield kind.FromString(one.value)
