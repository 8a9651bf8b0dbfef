"""The base class of the clients for threads and for asyncio: constructor, requests and watches."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import grpc

from easel_grpc import errors, requests, v1
from easel_grpc.attempts import ORDER, READ, STREAM, Attempts, Hooks, Kind, Limits, limits_of
from easel_grpc.connection import Connection, connection
from easel_grpc.requests import Inputs, Key, ListOptions, OrderOptions, Which
from easel_grpc.values import Account, Heartbeat, Model, Order, Quote, Render, UsageDimension, UsageRow, WatchUntil, of
from easel_grpc.watch import EventsProgress, GenerationProgress, GenerationsProgress, Progress

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")
Renders = TypeVar("Renders")
Events = TypeVar("Events")


@dataclass
class Call(Generic[T]):
    """A unary call. The function `value` extracts the result from a response."""

    stub: Callable[..., Any]
    request: Any
    attempts: Attempts
    value: Callable[[Any], T]


class Base(ABC, Generic[Renders, Events]):
    """The base class of the clients for threads and for asyncio. They differ in their channels and in the types of their watches."""

    _event: ClassVar[type]  # type of the event that close() sets: threading.Event or asyncio.Event

    def __init__(
        self,
        address: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | None = None,
        attempts: int | None = None,
        on_retry: Callable[[errors.Error, timedelta], object] | None = None,
        on_heartbeat: Callable[[Heartbeat], object] | None = None,
        on_key: Callable[[str], object] | None = None,
        logger: logging.Logger | logging.LoggerAdapter[Any] | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        allow_plaintext: bool | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        made = connection(address, api_key, credentials, allow_plaintext, options)
        channel = self._connect(made)
        limits = Limits(timeout=timeout, attempts=attempts)
        self._hooks = Hooks(made.target, on_retry, on_heartbeat, on_key, logger or logging.getLogger("easel_grpc"), self._event(), limits)
        self.accounts = v1.AccountServiceStub(channel)
        self.catalog = v1.ModelServiceStub(channel)
        self.generations = v1.GenerationServiceStub(channel)

    @abstractmethod
    def _connect(self, made: Connection) -> Any:
        """Opens a channel that adds the API key to its calls."""

    @abstractmethod
    def _watch(self, call: Callable[..., Any], progress: Progress[Any]) -> Any:
        """Starts a watch."""

    def watch(
        self, render: Which, *, until: WatchUntil = WatchUntil.TERMINAL, known_etag: str = "", heartbeat: float = 10, **limits: Unpack[Limits],
    ) -> Renders:  # fmt: skip
        """Yields a render's current state and each newer state.

        The watch ends when the render is finished. With until=WatchUntil.SETTLED, it continues until the cost is final. It
        reconnects if a server restarts or sends no message for three heartbeat intervals. It raises an error only if a retry
        can't help or the limits of the call are reached. The watch omits the state whose etag is known_etag.
        """
        request = requests.watch(render, until, known_etag, heartbeat)
        attempts = self._attempts(STREAM, "WatchGeneration", limits, generation_id=request.generation_id)
        watch: Renders = self._watch(self.generations.WatchGeneration, GenerationProgress(request, attempts))
        return watch

    def watch_many(
        self, renders: Iterable[Which] = (), *, until: WatchUntil = WatchUntil.TERMINAL, known_etags: Mapping[str, str] | None = None,
        model: str = "", labels: Mapping[str, str] | None = None, owner: str = "", heartbeat: float = 10, **limits: Unpack[Limits],
    ) -> Renders:  # fmt: skip
        """Yields the current state of each render, and then each newer state.

        The watch ends when all renders are finished. With until=WatchUntil.SETTLED, it continues until all costs are final.
        If renders is empty, it watches all matching renders, including new ones, until the caller stops it. A deleted render
        has the state DELETED. The watch handles failures in the same way as watch(). It never repeats a state of the 10,000
        renders that changed most recently. It omits each state whose etag is in known_etags. Only an operator may set owner.
        """
        request = requests.watch_many(renders, until, known_etags or {}, requests.chosen(model, (), labels or {}, owner), heartbeat)
        attempts = self._attempts(STREAM, "WatchGenerations", limits)
        watch: Renders = self._watch(self.generations.WatchGenerations, GenerationsProgress(request, attempts))
        return watch

    def events(
        self, resume_token: str = "", *, start: datetime | None = None, types: Iterable[str] = (), owner: str = "", heartbeat: float = 10,
        **limits: Unpack[Limits],
    ) -> Events:  # fmt: skip
        """Yields the durable events of the caller's team, or of the caller if it has no team.

        It yields each event at least once, and the events of one render in order. By default, it starts with the next event.
        If start is set, it starts at that time. If resume_token is set, it ignores start and continues after the event with
        this token. After a failure, it reconnects in the same way as watch() and continues after the last event. If events
        after resume_token may have been deleted, it raises an error with the reason RESUME_TOKEN_EXPIRED. Only an operator may
        set owner.
        """
        request = requests.events(resume_token, start, types, owner, heartbeat)
        events: Events = self._watch(self.generations.WatchEvents, EventsProgress(request, self._attempts(STREAM, "WatchEvents", limits)))
        return events

    def _attempts(self, kind: Kind, method: str, limits: Limits, *, key: str = "", generation_id: str = "") -> Attempts:
        return Attempts(self._hooks, kind, method, limits_of(limits), key=key, generation_id=generation_id)

    def _account(self, limits: Limits) -> Call[Account]:
        attempts = self._attempts(READ, "GetAccount", limits)
        return Call(self.accounts.GetAccount, v1.GetAccountRequest(), attempts, lambda answer: of(Account, answer.account))

    def _models(self, limits: Limits) -> Call[list[Model]]:
        attempts = self._attempts(READ, "ListModels", limits)
        return Call(self.catalog.ListModels, v1.ListModelsRequest(), attempts, lambda page: [of(Model, one) for one in page.models])

    def _model(self, model_id: str, limits: Limits) -> Call[Model]:
        attempts = self._attempts(READ, "GetModel", limits)
        return Call(self.catalog.GetModel, v1.GetModelRequest(model_id=model_id), attempts, lambda answer: of(Model, answer.model))

    def _quote(self, model: str, inputs: Inputs, limits: Limits) -> Call[Quote]:
        request = v1.QuoteGenerationRequest(model_id=model, inputs_json=requests.text_of(inputs))
        attempts = self._attempts(READ, "QuoteGeneration", limits)
        return Call(self.generations.QuoteGeneration, request, attempts, lambda answer: of(Quote, answer.quote))

    def _order(self, model: str, inputs: Inputs, key: Key, options: OrderOptions, limits: Limits) -> Call[Order]:
        request = requests.order(model, inputs, key, options)
        used = request.idempotency_key
        return Call(
            self.generations.CreateGeneration, request, self._attempts(ORDER, "CreateGeneration", limits, key=used),
            lambda raw: Order(key=used, render=of(Render, raw.generation), replayed=raw.replayed, raw=raw),
        )  # fmt: skip

    def _get(self, render: Which, limits: Limits) -> Call[Render]:
        request = v1.GetGenerationRequest(generation_id=requests.id_of(render))
        attempts = self._attempts(READ, "GetGeneration", limits, generation_id=request.generation_id)
        return Call(self.generations.GetGeneration, request, attempts, lambda answer: of(Render, answer.generation))

    def _list(self, options: ListOptions) -> Call[list[Render]]:
        chosen = requests.chosen(options.get("model", ""), options.get("states", ()), options.get("labels") or {}, options.get("owner", ""))
        attempts = self._attempts(READ, "ListGenerations", limits_of(options, ListOptions))
        request = v1.ListGenerationsRequest(filter=chosen)
        return Call(self.generations.ListGenerations, request, attempts, lambda page: [of(Render, one) for one in page.generations])

    def _usage(
        self, start: datetime | None, end: datetime | None, by: Iterable[UsageDimension], label: str, limits: Limits,
    ) -> Call[list[UsageRow]]:  # fmt: skip
        attempts = self._attempts(READ, "ListUsage", limits)
        return Call(self.accounts.ListUsage, requests.usage(start, end, by, label), attempts, lambda page: [of(UsageRow, one) for one in page.rows])

    def _delete(self, render: Which, force: bool, limits: Limits) -> Call[None]:
        request = v1.DeleteGenerationRequest(generation_id=requests.id_of(render), allow_missing=True, force=force)
        attempts = self._attempts(READ, "DeleteGeneration", limits, generation_id=request.generation_id)
        return Call(self.generations.DeleteGeneration, request, attempts, lambda _: None)
