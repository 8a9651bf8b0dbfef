"""Functions that build requests from plain values."""

import enum
import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, TypedDict
from uuid import UUID

from easel_grpc import v1
from easel_grpc.attempts import Limits
from easel_grpc.values import Order, Render, State, UsageDimension, WatchUntil

class ListOptions(Limits, total=False):
    """The filter and the limits of a list. A render must match all conditions that are set. Only an operator may set owner."""

    model: str
    states: Iterable[State]
    labels: Mapping[str, str] | None
    owner: str


Inputs = Mapping[str, Any] | str  # a str is a JSON object, which is sent unchanged
Key = str | int | UUID


class Made(enum.Enum):
    """A placeholder for a key that the client will create."""

    KEY = enum.auto()


class OrderOptions(Limits, total=False):
    """The idempotency key, maximum price, expire time, labels and limits of an order. If key is omitted, the client creates one.

    The expire time is a datetime with a time zone, or a timedelta from now. After this time, the order is not sent to the
    catalog.
    """

    key: Key | Made
    max_cost_cents: int | None
    expire: datetime | timedelta | None
    labels: Mapping[str, str] | None


Which = str | Order | Render  # a str is a generation ID


def id_of(which: Which) -> str:
    return which if isinstance(which, str) else which.generation_id


def text_of(inputs: Inputs) -> str:
    return inputs if isinstance(inputs, str) else json.dumps(inputs, allow_nan=False)


def key_of(key: Key | None) -> str:
    if key is None or key == "":  # an empty key is probably the unset ID of the caller's record
        raise ValueError("the key must not be empty; omit it, and the client creates one")
    return str(key)


def order(model: str, inputs: Inputs, key: Key, options: OrderOptions) -> v1.CreateGenerationRequest:
    request = v1.CreateGenerationRequest(
        model_id=model,
        inputs_json=text_of(inputs),
        idempotency_key=key_of(key),
        max_cost_cents=options.get("max_cost_cents"),
        labels=options.get("labels") or {},
    )
    if (expire := options.get("expire")) is not None:
        request.expire_time.FromDatetime(time_of(expire))
    return request


def time_of(expire: datetime | timedelta) -> datetime:
    if isinstance(expire, timedelta):
        return datetime.now(timezone.utc) + expire
    if not isinstance(expire, datetime):
        raise TypeError(f"expire must be a datetime with a time zone or a timedelta, not {type(expire).__name__}")
    if expire.utcoffset() is None:
        raise ValueError("expire has no time zone; pass an aware datetime, such as datetime.now(timezone.utc) + timedelta(minutes=5), or a timedelta")
    return expire


def watch(which: Which, until: WatchUntil = WatchUntil.TERMINAL, known_etag: str = "", heartbeat: float = 10) -> v1.WatchGenerationRequest:
    request = v1.WatchGenerationRequest(generation_id=id_of(which), until=v1.WatchUntil.ValueType(until), known_etag=known_etag)
    request.heartbeat_interval.FromTimedelta(timedelta(seconds=heartbeat))
    return request


def watch_many(
    which: Iterable[Which], until: WatchUntil, known_etags: Mapping[str, str], chosen: v1.GenerationFilter, heartbeat: float
) -> v1.WatchGenerationsRequest:
    if isinstance(which, str):  # type checkers do not reject a str, because it is an Iterable of str
        raise TypeError("watch_many expects an iterable of IDs; for one ID, use watch")
    request = v1.WatchGenerationsRequest(generation_ids=map(id_of, which), until=v1.WatchUntil.ValueType(until), known_etags=known_etags)
    request.heartbeat_interval.FromTimedelta(timedelta(seconds=heartbeat))
    if chosen.ByteSize():
        request.filter.CopyFrom(chosen)
    return request


def events(resume_token: str, start: datetime | None, types: Iterable[str], owner: str, heartbeat: float) -> v1.WatchEventsRequest:
    if isinstance(types, str):  # type checkers do not reject a str, because it is an Iterable of str
        raise TypeError("types must be a list of types")
    request = v1.WatchEventsRequest(resume_token=resume_token, filter=v1.EventFilter(types=types, owner=owner))
    request.heartbeat_interval.FromTimedelta(timedelta(seconds=heartbeat))
    if start:
        request.start_time.FromDatetime(start)
    return request


def chosen(model: str, states: Iterable[State], labels: Mapping[str, str], owner: str) -> v1.GenerationFilter:
    return v1.GenerationFilter(model_id=model, states=map(v1.State.ValueType, states), labels=labels, owner=owner)


def usage(start: datetime | None, end: datetime | None, by: Iterable[UsageDimension], label: str) -> v1.ListUsageRequest:
    request = v1.ListUsageRequest(group_by=map(v1.UsageDimension.ValueType, by), label_name=label)
    if start:
        request.start_time.FromDatetime(start)
    if end:
        request.end_time.FromDatetime(end)
    return request
