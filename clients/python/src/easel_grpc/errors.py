"""Errors, by what a program does about them."""

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
    """A field of the request, and what is wrong with it."""

    field: str
    description: str


class Error(Exception):
    """Is the base of all errors of this package."""

    is_retryable = False  # whether the same call again may mend it

    def __init__(
        self, message: str, *, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN, details: Iterable[Message] = (), key: str = "", generation_id: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.details = tuple(details)  # messages of google.rpc
        self.key = key  # the idempotency key, where it is about an order
        self.generation_id = generation_id  # of the one render that it is about, where that is known
        info = self._detail("ErrorInfo")
        ours = info is not None and info.domain == "easel"
        self.reason: str = info.reason if ours else ""  # a name of the contract's ErrorReason, or of a newer one
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
        """Returns the outcome of an order after all attempts, or None for other calls. Forget the key only after "not_placed"."""
        return cast(OrderOutcome | None, self.metadata.get("order_outcome"))

    def _detail(self, name: str) -> Any:
        return next((one for one in self.details if one.DESCRIPTOR.name == name), None)

    def _cents(self, name: str) -> int | None:
        value = self.metadata.get(name, "")
        return int(value) if value.isdecimal() else None


class InvalidRequest(Error):
    """The request breaks a rule: mend it. field_violations names fields."""


class Unauthenticated(Error):
    """The API key or token is missing or not accepted."""


class PermissionDenied(Error):
    """The caller may not do this."""


class NotFound(Error):
    """There is no such render or model for this caller."""


class InsufficientBalance(Error):
    """The balance does not cover the price."""


class PriceAboveLimit(Error):
    """The price is above max_cost_cents."""

    @property
    def price_cents(self) -> int | None:
        return self._cents("price_cents")


class BudgetExceeded(Error):
    """The team's budget has no room for the price until reset_time."""

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
    def reset_time(self) -> datetime | None:
        time = Timestamp()
        try:
            time.FromJsonString(self.metadata.get("reset_time", ""))
        except ValueError:
            return None
        return time.ToDatetime(timezone.utc)


class DailyCapReached(Error):
    """The API key has reached its daily cap in the catalog."""


class IdempotencyKeyReused(Error):
    """The key stands for another order."""


class OutcomeUnknown(Error):
    """It is not known whether the order was taken: keep its key, and order again with it."""


class NotReady(Error):
    """The render has not ended, or its result is not there yet."""


class NoContent(Error):
    """The render has no file and will have none."""


class ContentChanged(Error):
    """The bytes are not those that the download has begun with."""


class Unavailable(Error):
    """Easel or the catalog can't answer now."""


class ServerFault(Error):
    """The server or its operator has to mend something."""


class Timeout(Error, TimeoutError):
    """The caller's own time is over. The cause is the last failure, whose reason it has, and heartbeat says how the catalog was."""

    heartbeat: Heartbeat | None = None


class RenderFailed(Error):
    """The render was paid and came to nothing, or was deleted."""

    render: Render


class Damaged(Error):
    """Bytes of a download are not those that the server has sent."""


_CLASSES = {kind.__name__: kind for kind in Error.__subclasses__()}


def _plain(text: str) -> str:
    """Returns the message of a status, and a message with a remedy if the port speaks another protocol than the client."""
    if "WRONG_VERSION_NUMBER" in text:
        return "server does not speak TLS; use http:// in the address"
    if "http1.x server" in text:
        return "server speaks HTTP/1.1 and not gRPC; use the gRPC address of Easel"
    return text


def of(error: BaseException) -> Error:
    """Gives an error of gRPC its class."""
    if isinstance(error, Error):
        return error
    code, text = grpc.StatusCode.UNKNOWN, str(error)
    if isinstance(error, (grpc.Call, grpc.aio.AioRpcError)):
        code, text = error.code(), _plain(error.details() or "")
    found = Error(text, code=code, details=_details(error))
    row = REASONS.get(found.reason) or CODES[code.name]
    made = _CLASSES[row["class"]](f"{found.reason or code.name}: {text}", code=code, details=found.details)
    made.is_retryable = row["again"] == "yes" or (row["again"] == "if_told" and made.retry_after is not None)
    return made


def failed(render: Render, key: str) -> RenderFailed:
    """Makes the error of a render that came to nothing."""
    error = RenderFailed(f"{render.state}: {render.failure_message}", key=key, generation_id=render.generation_id)
    error.render = render
    return error


def seconds_of(duration: Duration) -> float:
    """Reads a duration, of which a server may say more than a timedelta has room for."""
    return min(duration.seconds + duration.nanos / 1e9, 1e12)


def _details(error: BaseException) -> list[Message]:
    """Reads the details, where they are some."""
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
