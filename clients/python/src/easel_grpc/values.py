"""Converts the contract's messages to Python values: dataclasses, times, durations, enumerations and dictionaries.

The field raw is the original message. It also contains fields that only a newer server sends. None means that the server sent no value.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from easel_grpc import v1

T = TypeVar("T")


class Named(enum.IntEnum):
    """An enumeration in the contract. A value that this client does not know has a name such as unknown(9)."""

    @classmethod
    def _missing_(cls, value: object) -> "Named | None":
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_, member._value_ = f"unknown({value})", value
        return member

    def __str__(self) -> str:
        return self.name


class State(Named):
    """The state of a render. A render that is QUEUED, RUNNING or UNRECOGNIZED is not finished."""

    QUEUED = 1
    RUNNING = 2
    SUCCEEDED = 3
    FAILED = 4
    REFUNDED = 5
    DELETED = 6
    UNRECOGNIZED = 7


class WatchUntil(Named):
    """The condition that ends a watch: the render is finished (TERMINAL), or its cost is also final (SETTLED)."""

    TERMINAL = 1
    SETTLED = 2


class UpstreamCondition(Named):
    """The condition of the catalog, as observed by the server."""

    HEALTHY = 1
    THROTTLED = 2
    UNREACHABLE = 3
    CREDENTIAL_REJECTED = 4


class BudgetWindow(Named):
    """The period of a budget: a day or a month in UTC."""

    DAY = 1
    MONTH = 2


class UsageDimension(Named):
    """A property by which orders are grouped."""

    DAY = 1
    OWNER = 2
    CALLER = 3
    MODEL = 4
    LABEL = 5


@dataclass(frozen=True)
class FileResult:
    """The file that a render produced. Client.download downloads it."""

    content_type: str
    size_bytes: int | None
    raw: v1.FileResult = field(repr=False, compare=False)


@dataclass(frozen=True)
class Render:
    """The state of a paid render, which the contract calls a generation, at one point in time. Each new state is a new Render object."""

    generation_id: str
    model_id: str
    state: State
    upstream_status: str
    terminal: bool
    inputs: Mapping[str, Any] | None
    cost_cents: int | None
    currency_code: str
    file: FileResult | None
    text: str | None
    failure_message: str
    create_time: datetime | None
    terminal_time: datetime | None
    observe_time: datetime | None
    etag: str
    owner: str
    caller: str
    labels: Mapping[str, str]
    upstream_fields: Mapping[str, Any] | None
    omitted_fields: Sequence[str]
    raw: v1.Generation = field(repr=False, compare=False)
    typical_remaining: timedelta | None = None  # estimated remaining time, as reported in the watch's last heartbeat


@dataclass(frozen=True)
class Order:
    """An accepted order. If replayed is true, an earlier order used the key, and the render belongs to that order."""

    key: str
    render: Render
    replayed: bool
    raw: v1.CreateGenerationResponse = field(repr=False, compare=False)

    @property
    def generation_id(self) -> str:
        return self.render.generation_id


@dataclass(frozen=True)
class Quote:
    """The current price of a render."""

    price_cents: int
    currency_code: str
    quote_time: datetime | None
    balance_cents: int | None
    affordable: bool | None
    raw: v1.Quote = field(repr=False, compare=False)


@dataclass(frozen=True)
class Budget:
    """The budget and the spending of a team, or of a caller without a team, in the current day or month."""

    window: BudgetWindow
    limit_cents: int
    spent_cents: int
    reserved_cents: int
    currency_code: str
    start_time: datetime | None
    reset_time: datetime | None
    raw: v1.Budget = field(repr=False, compare=False)


@dataclass(frozen=True)
class Account:
    """The balance, if the caller may see it, and the caller's budgets."""

    balance_cents: int | None
    currency_code: str
    budgets: Sequence[Budget]
    observe_time: datetime | None
    upstream_fields: Mapping[str, Any] | None
    omitted_fields: Sequence[str]
    raw: v1.Account = field(repr=False, compare=False)


@dataclass(frozen=True)
class Event:
    """A change to a render or a budget. It has the same ID and type as the webhook for this change.

    Store resume_token after you have processed the event. To continue after the event, pass the token to Client.events.
    """

    event_id: str
    type: str
    create_time: datetime | None
    owner: str
    render: Render | None
    budget: Budget | None
    resume_token: str
    raw: v1.Event = field(repr=False, compare=False)


class OutputKind(Named):
    """The kind of result that a model produces."""

    FILE = 1
    TEXT = 2


class InputFieldType(Named):
    """The JSON type of an input."""

    STRING = 1
    INTEGER = 2
    NUMBER = 3
    BOOLEAN = 4
    OBJECT = 5
    ARRAY = 6


@dataclass(frozen=True)
class InputField:
    """One input of a model."""

    name: str
    display_name: str
    description: str
    type: InputFieldType | None
    required: bool | None
    default_value: Any
    allowed_values: Sequence[Any]
    minimum: float | None
    maximum: float | None
    upstream_fields: Mapping[str, Any] | None
    raw: v1.InputField = field(repr=False, compare=False)


@dataclass(frozen=True)
class Model:
    """A model in the catalog. Client.models may omit the input fields; Client.model returns them."""

    model_id: str
    display_name: str
    description: str
    output_kind: OutputKind | None
    input_fields: Sequence[InputField]
    observe_time: datetime | None
    upstream_fields: Mapping[str, Any] | None
    omitted_fields: Sequence[str]
    raw: v1.Model = field(repr=False, compare=False)


@dataclass(frozen=True)
class UsageRow:
    """The number and the costs of a group of orders, such as all orders of one model on one day.

    The requested dimensions determine the groups.
    """

    day: str
    owner: str
    caller: str
    model_id: str
    label_value: str
    order_count: int
    failed_count: int
    unknown_count: int
    cost_cents: int
    refunded_cents: int
    reserved_cents: int
    unconfirmed_cents: int
    currency_code: str
    raw: v1.UsageRow = field(repr=False, compare=False)


@dataclass(frozen=True)
class Heartbeat:
    """A message that a watch receives while there are no updates."""

    observe_time: datetime | None
    next_poll_time: datetime | None
    upstream_condition: UpstreamCondition
    consecutive_poll_failures: int
    last_error: str
    typical_remaining: timedelta | None
    raw: v1.Heartbeat = field(repr=False, compare=False)


_KINDS: Mapping[str, Any] = {kind.__name__: kind for kind in (*Named.__subclasses__(), FileResult, Budget, InputField)}


def of(kind: Callable[..., T], raw: Message, **more: Any) -> T:
    """Converts a message to an instance of the class. Additional arguments are passed to the constructor."""
    fields = raw.DESCRIPTOR.fields_by_name.items()
    return kind(**{name: _read(raw, one) for name, one in fields}, raw=raw, **more)


def event_of(message: v1.WatchEventsResponse) -> Event:
    """Returns the event in a message."""
    raw = message.event
    return Event(
        raw.event_id, raw.type, _read(raw, raw.DESCRIPTOR.fields_by_name["create_time"]), raw.owner,
        of(Render, raw.generation) if raw.HasField("generation") else None,
        of(Budget, raw.budget) if raw.HasField("budget") else None,
        message.resume_token, raw,
    )  # fmt: skip


def _read(raw: Message, one: Any) -> Any:
    if one.has_presence and not raw.HasField(one.name):
        return None
    value = getattr(raw, one.name)
    if value == 0 and one.name in ("output_kind", "type"):  # the catalog does not specify the value
        return None
    if one.enum_type:
        return _KINDS[one.enum_type.name](value)
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Timestamp):
        return value.ToDatetime(timezone.utc)
    if isinstance(value, Duration):
        return value.ToTimedelta()
    if isinstance(value, (Struct, Value)):
        return MessageToDict(value)
    if isinstance(value, v1.TextResult):
        return value.text
    if isinstance(value, Message):
        return of(_KINDS[value.DESCRIPTOR.name], value)
    if isinstance(value, Mapping):
        return dict(value)
    return value if isinstance(value, (str, int, float)) else tuple(map(_plain, value))
