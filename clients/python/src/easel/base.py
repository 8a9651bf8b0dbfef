"""What the client for threads and the one for asyncio have in common: how they are made, and their watches."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar, overload

import grpc

from easel import errors, requests, v1
from easel.attempts import Attempts, Hooks
from easel.connection import Connection, connection
from easel.requests import Which
from easel.values import Account, Heartbeat, Render, WatchUntil
from easel.watch import AccountProgress, GenerationProgress, GenerationsProgress, Progress

Renders = TypeVar("Renders")
Accounts = TypeVar("Accounts")


class Base(ABC, Generic[Renders, Accounts]):
    """Is what both are made of. They differ in what a watch is, and in the way that it comes."""

    _event: ClassVar[type]  # of threading or of asyncio

    def __init__(
        self,
        address: str | None = None,
        api_key: str | None = None,
        *,
        on_retry: Callable[[errors.Error, timedelta], object] | None = None,
        on_heartbeat: Callable[[Heartbeat], object] | None = None,
        on_key: Callable[[str], object] | None = None,
        logger: "logging.Logger | logging.LoggerAdapter[Any] | None" = None,
        credentials: grpc.ChannelCredentials | None = None,
        allow_plaintext: bool | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        made = connection(address, api_key, credentials, allow_plaintext, options)
        channel = self._connect(made)
        self._hooks = Hooks(made.target, on_retry, on_heartbeat, on_key, logger or logging.getLogger("easel"), self._event())
        self.accounts = v1.AccountServiceStub(channel)
        self.generations = v1.GenerationServiceStub(channel)
        self.models = v1.ModelServiceStub(channel)

    @abstractmethod
    def _connect(self, made: Connection) -> Any:
        """Opens a channel that signs its calls."""

    @overload
    def _watch(self, call: Callable[..., Any], progress: Progress[Render]) -> Renders: ...
    @overload
    def _watch(self, call: Callable[..., Any], progress: Progress[Account]) -> Accounts: ...
    @abstractmethod
    def _watch(self, call: Callable[..., Any], progress: Progress[Any]) -> Any:
        """Begins a watch."""

    def watch(
        self, render: Which, *, until: WatchUntil = WatchUntil.TERMINAL, known_etag: str = "", heartbeat: float = 10,
        timeout: float | None = None,
    ) -> Renders:  # fmt: skip
        """Yields the state of a render as it is, and each newer one until the goal.

        It goes on through a server that restarts or falls silent for three heartbeats, and raises what
        watching again can't mend. A state whose etag is known_etag is left out.
        """
        request = requests.watch(render, until, known_etag, heartbeat)
        attempts = self._attempts(timeout, generation_id=request.generation_id)
        return self._watch(self.generations.WatchGeneration, GenerationProgress(request, attempts))

    def watch_many(
        self, renders: Iterable[Which], *, until: WatchUntil = WatchUntil.TERMINAL, known_etags: Mapping[str, str] | None = None,
        model: str = "", labels: Mapping[str, str] | None = None, owner: str = "", heartbeat: float = 10, timeout: float | None = None,
    ) -> Renders:  # fmt: skip
        """Yields the state of many renders as it is, and each newer one, until all have reached the goal: of none, it is over.

        A deleted one comes as DELETED. It goes on as watch does, and repeats no state of the 10,000 renders that changed last, nor
        of known_etags.
        """
        request = requests.watch_many(renders, until, known_etags or {}, requests.chosen(model, (), labels or {}, owner), heartbeat)
        return self._watch(self.generations.WatchGenerations, GenerationsProgress(request, self._attempts(timeout), everything=False))

    def watch_all(
        self, *, known_etags: Mapping[str, str] | None = None, model: str = "", labels: Mapping[str, str] | None = None, owner: str = "",
        heartbeat: float = 10, timeout: float | None = None,
    ) -> Renders:  # fmt: skip
        """Is watch_many of every render that matches, new ones too, and has no end."""
        request = requests.watch_many((), WatchUntil.TERMINAL, known_etags or {}, requests.chosen(model, (), labels or {}, owner), heartbeat)
        return self._watch(self.generations.WatchGenerations, GenerationsProgress(request, self._attempts(timeout), everything=True))

    def watch_account(self, *, heartbeat: float = 10, timeout: float | None = None) -> Accounts:
        """Yields the account as it is, and each newer one, without an end. It goes on as watch does."""
        request = v1.WatchAccountRequest()
        request.heartbeat_interval.FromTimedelta(timedelta(seconds=heartbeat))
        return self._watch(self.accounts.WatchAccount, AccountProgress(request, self._attempts(timeout)))

    def _attempts(self, timeout: float | None, *, key: str = "", generation_id: str = "", bounded: bool = False) -> Attempts:
        return Attempts(self._hooks, timeout, key=key, generation_id=generation_id, bounded=bounded)
