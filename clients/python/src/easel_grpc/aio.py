"""The client for asyncio. It has the same methods as the client for threads. A call also ends when its task is canceled."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc
import grpc.aio

from easel_grpc import errors, requests
from easel_grpc.attempts import STREAM, Limits, limits_of
from easel_grpc.base import Base, Call
from easel_grpc.connection import APIKey, Connection
from easel_grpc.download import Download, Target
from easel_grpc.requests import Inputs, ListOptions, Made, OrderOptions, Which
from easel_grpc.values import Account, Event, Model, Order, Quote, Render, State, UsageDimension, UsageRow, WatchUntil
from easel_grpc.watch import GenerationProgress, Progress

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")

# Exceptions from failed calls. After the client is closed, calls in progress raise CancelledError, and new calls raise
# UsageError.
ENDS = (grpc.RpcError, grpc.aio.UsageError, asyncio.CancelledError)


class Client(Base["Watch[Render]", "Watch[Event]"]):
    """The client for asyncio; see easel_grpc.Client. on_key may be a coroutine function; the order is sent after it has returned."""

    _event = asyncio.Event

    def _connect(self, made: Connection) -> Any:
        bearers: list[grpc.aio.ClientInterceptor] = [_BearerOnce(made.key), _BearerOfStreams(made.key)] if made.key else []
        if made.credentials is None:
            self._channel = grpc.aio.insecure_channel(made.target, made.options, interceptors=bearers)
        else:
            self._channel = grpc.aio.secure_channel(made.target, made.credentials, made.options, interceptors=bearers)
        self._watches: weakref.WeakSet[Watch[Any]] = weakref.WeakSet()
        return self._channel

    async def close(self) -> None:
        """See easel_grpc.Client.close."""
        self._hooks.closed.set()
        for watch in tuple(self._watches):
            watch._close()
        await self._channel.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def account(self, **limits: Unpack[Limits]) -> Account:
        """See easel_grpc.Client.account."""
        return await _call(self._account(limits))

    def models(self, **limits: Unpack[Limits]) -> AsyncIterator[Model]:
        """See easel_grpc.Client.models."""
        return _pages(self._models(limits))

    async def model(self, model_id: str, **limits: Unpack[Limits]) -> Model:
        """See easel_grpc.Client.model."""
        return await _call(self._model(model_id, limits))

    async def quote(self, model: str, inputs: Inputs, **limits: Unpack[Limits]) -> Quote:
        """See easel_grpc.Client.quote."""
        return await _call(self._quote(model, inputs, limits))

    async def order(self, model: str, inputs: Inputs, **options: Unpack[OrderOptions]) -> Order:
        """See easel_grpc.Client.order."""
        limits = limits_of(options, OrderOptions)
        key = options.get("key", Made.KEY)
        if isinstance(key, Made):
            key, written = self._hooks.made_key()
            if inspect.isawaitable(written):
                await written
        return await _call(self._order(model, inputs, key, options, limits))

    async def run(self, model: str, inputs: Inputs, **options: Unpack[OrderOptions]) -> Render:
        """See easel_grpc.Client.run."""
        attempts = self._attempts(STREAM, "WatchGeneration", limits_of(options, OrderOptions))
        order = await self.order(model, inputs, **options)
        attempts.key, attempts.generation_id, render = order.key, order.generation_id, order.render
        async for render in self._watch(self.generations.WatchGeneration, GenerationProgress(requests.watch(render), attempts)):
            pass
        if render.state != State.SUCCEEDED:
            raise errors.failed(render, order.key)
        return render

    async def wait(self, render: Which, *, until: WatchUntil = WatchUntil.TERMINAL, **limits: Unpack[Limits]) -> Render:
        """See easel_grpc.Client.wait."""
        async for newest in self.watch(render, until=until, **limits):  # noqa: B007
            pass
        return newest

    async def get(self, render: Which, **limits: Unpack[Limits]) -> Render:
        """See easel_grpc.Client.get."""
        return await _call(self._get(render, limits))

    def list(self, **options: Unpack[ListOptions]) -> AsyncIterator[Render]:
        """See easel_grpc.Client.list."""
        return _pages(self._list(options))

    def usage(
        self, start: datetime | None = None, end: datetime | None = None, *, by: Iterable[UsageDimension] = (UsageDimension.MODEL,),
        label: str = "", **limits: Unpack[Limits],
    ) -> AsyncIterator[UsageRow]:  # fmt: skip
        """See easel_grpc.Client.usage."""
        return _pages(self._usage(start, end, by, label, limits))

    async def delete(self, render: Which, *, force: bool = False, **limits: Unpack[Limits]) -> None:
        """See easel_grpc.Client.delete."""
        return await _call(self._delete(render, force, limits))

    async def download(self, render: Which, to: Target, **limits: Unpack[Limits]) -> None:
        """See easel_grpc.Client.download."""
        attempts = self._attempts(STREAM, "DownloadGeneration", limits, generation_id=requests.id_of(render))
        with Download(attempts.generation_id, to) as rest:
            while True:
                try:
                    async for message in self.generations.DownloadGeneration(rest.request, timeout=attempts.left()):
                        await asyncio.to_thread(rest.take, message.chunk)
                        attempts.answered()
                    return await asyncio.to_thread(rest.finish)
                except ENDS as error:
                    delay = attempts.pause(error)
                await asyncio.to_thread(rest.resume)
                await _pause(delay, self._hooks.closed)

    def _watch(self, call: Callable[..., Any], progress: Progress[T]) -> "Watch[T]":
        watch = Watch(call, progress)
        self._watches.add(watch)
        return watch


async def _call(call: Call[T]) -> T:
    """Makes a call, and repeats it until it succeeds or an error is final. It returns the value in the response."""
    attempts = call.attempts
    while True:
        try:
            answer = await call.stub(call.request, timeout=attempts.left())
            attempts.answered()
            return call.value(answer)
        except ENDS as error:
            await _pause(attempts.pause(error), attempts.hooks.closed)


async def _pages(call: Call[list[T]]) -> AsyncIterator[T]:
    token, value = "", call.value

    def read(page: Any) -> list[T]:
        nonlocal token
        token = page.next_page_token
        return value(page)

    call.value = read
    while True:
        call.attempts.begin()
        for one in await _call(call):
            yield one
        if not token:
            return
        call.request.page_token = token


async def _pause(seconds: float, stopped: asyncio.Event) -> None:
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((stopping,), timeout=seconds)
    finally:
        stopping.cancel()


class Watch(Generic[T], AsyncIterator[T]):
    """An asynchronous iterator over the states or events of a watch. It ends when the watch is complete or a task calls stop().

    If the caller leaves the loop early, the watch ends when no variable refers to it. To end it immediately, use it in an async
    with block or call stop().
    """

    def __init__(self, call: Callable[..., Any], progress: Progress[T]) -> None:
        self._attempts = progress.attempts
        self._by_close = False
        self._stopped = asyncio.Event()
        self._states = _follow(call, progress, self._stopped)

    async def __anext__(self) -> T:
        try:
            return await anext(self._states)
        except StopAsyncIteration:
            if self._by_close:
                raise self._attempts.closed() from None
            raise

    async def __aenter__(self) -> "Watch[T]":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        with contextlib.suppress(RuntimeError):  # another task is reading the watch; stop() ends that task's loop
            await self._states.aclose()

    def stop(self) -> None:
        """Ends the loop over the watch without an error."""
        self._stopped.set()

    def _close(self) -> None:
        self._by_close = not self._stopped.is_set()
        self._stopped.set()


async def _follow(call: Callable[..., Any], progress: Progress[T], stopped: asyncio.Event) -> AsyncGenerator[T, None]:
    """Yields new states, and reopens the stream after each failure."""
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        while not stopped.is_set():
            stream = call(progress.begin(), timeout=progress.attempts.left())
            messages = aiter(stream)
            try:
                while (message := await _unless_silent(messages, progress, stopping)) is not None:
                    if (newer := progress.take(message)) is not None:
                        yield newer
                return
            except StopAsyncIteration:
                if progress.has_goal:
                    return
                delay = progress.pause()
            except (grpc.RpcError, errors.Unavailable) as error:
                delay = progress.pause(error)
            finally:
                stream.cancel()
            await _pause(delay, stopped)
    finally:
        stopping.cancel()


async def _unless_silent(messages: AsyncIterator[Any], progress: Progress[Any], stopping: "asyncio.Future[Any]") -> Any:
    """Returns the next message, or None if the watch is stopped.

    It does not use asyncio.wait_for, because in Python 3.10 and 3.11 that function can lose the cancellation of the task.
    """
    coming = asyncio.ensure_future(anext(messages))
    try:
        done, _ = await asyncio.wait((coming, stopping), timeout=progress.silence, return_when=asyncio.FIRST_COMPLETED)
        if stopping in done:
            return None
        if not done:
            raise progress.silent()
        return coming.result()
    finally:
        coming.cancel()


class _Bearer:
    def __init__(self, key: APIKey) -> None:
        self.key = key

    def signed(self, details: Any) -> Any:
        return details._replace(metadata=grpc.aio.Metadata(*(details.metadata or ()), self.key.header()))


class _BearerOnce(_Bearer, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(self.signed(client_call_details), request)


class _BearerOfStreams(_Bearer, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(self.signed(client_call_details), request)
