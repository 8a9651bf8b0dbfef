"""The client for asyncio: what easel has, with async. A function ends with its task, too."""

import asyncio
import contextlib
import inspect
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from easel import errors, requests, v1
from easel.attempts import Attempts
from easel.base import Base
from easel.connection import APIKey, Connection
from easel.download import Download, Target
from easel.requests import Inputs, Key, Made, Which
from easel.values import Account, Order, Quote, Render, State, UsageDimension, UsageRow, of
from easel.watch import GenerationProgress, Progress

T = TypeVar("T")

# How a call ends without an answer. That of a closed client is cancelled, or can't begin.
ENDS = (grpc.RpcError, grpc.aio.UsageError, asyncio.CancelledError)


class Client(Base["Watch[Render]", "Watch[Account]"]):
    """Is easel.Client for asyncio. on_key may be a coroutine function: the order waits for it."""

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
        """Is Client.close of easel."""
        self._hooks.closed.set()
        for watch in tuple(self._watches):
            watch._close()
        await self._channel.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def quote(self, model: str, inputs: Inputs, *, timeout: float | None = None) -> Quote:
        """Is Client.quote of easel."""
        request = v1.QuoteGenerationRequest(model_id=model, inputs_json=requests.text_of(inputs))
        return of(Quote, (await _call(self.generations.QuoteGeneration, request, self._attempts(timeout, bounded=True))).quote)

    async def order(
        self, model: str, inputs: Inputs, *, key: Key | Made = Made.KEY, max_cost_cents: int | None = None,
        labels: Mapping[str, str] | None = None, timeout: float | None = None,
    ) -> Order:  # fmt: skip
        """Is Client.order of easel."""
        if key is Made.KEY:
            key, written = self._hooks.made_key()
            if inspect.isawaitable(written):
                await written
        request = requests.order(model, inputs, key, max_cost_cents, labels)
        raw = await _call(self.generations.CreateGeneration, request, self._attempts(timeout, key=request.idempotency_key))
        return Order(key=request.idempotency_key, render=of(Render, raw.generation), replayed=raw.replayed, raw=raw)

    async def run(
        self, model: str, inputs: Inputs, *, key: Key | Made = Made.KEY, max_cost_cents: int | None = None,
        labels: Mapping[str, str] | None = None, timeout: float | None = None,
    ) -> Render:  # fmt: skip
        """Is Client.run of easel."""
        attempts = self._attempts(timeout)
        order = await self.order(model, inputs, key=key, max_cost_cents=max_cost_cents, labels=labels, timeout=timeout)
        attempts.key, attempts.generation_id, render = order.key, order.generation_id, order.render
        async for render in self._watch(self.generations.WatchGeneration, GenerationProgress(requests.watch(render), attempts)):
            pass
        if render.state != State.SUCCEEDED:
            raise errors.failed(render, order.key)
        return render

    async def get(self, render: Which, *, timeout: float | None = None) -> Render:
        """Is Client.get of easel."""
        request = v1.GetGenerationRequest(generation_id=requests.id_of(render))
        attempts = self._attempts(timeout, generation_id=request.generation_id, bounded=True)
        return of(Render, (await _call(self.generations.GetGeneration, request, attempts)).generation)

    async def list(
        self, *, model: str = "", states: Iterable[State] = (), labels: Mapping[str, str] | None = None, owner: str = "",
        timeout: float | None = None,
    ) -> AsyncIterator[Render]:  # fmt: skip
        """Is Client.list of easel."""
        request = v1.ListGenerationsRequest(filter=requests.chosen(model, states, labels or {}, owner))
        async for page in _pages(self.generations.ListGenerations, request, self._attempts(timeout, bounded=True)):
            for one in page.generations:
                yield of(Render, one)

    async def usage(
        self, start: datetime | None = None, end: datetime | None = None, *, by: Iterable[UsageDimension] = (UsageDimension.MODEL,),
        label: str = "", timeout: float | None = None,
    ) -> AsyncIterator[UsageRow]:  # fmt: skip
        """Is Client.usage of easel."""
        async for page in _pages(self.accounts.ListUsage, requests.usage(start, end, by, label), self._attempts(timeout, bounded=True)):
            for one in page.rows:
                yield of(UsageRow, one)

    async def download(self, render: Which, to: Target, *, timeout: float | None = None) -> None:
        """Is Client.download of easel."""
        attempts = self._attempts(timeout, generation_id=requests.id_of(render))
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

async def _call(method: Callable[..., Awaitable[T]], request: Any, attempts: Attempts) -> T:
    """Calls until there is an answer."""
    while True:
        try:
            answer = await method(request, timeout=attempts.left())
            attempts.answered()
            return answer
        except ENDS as error:
            await _pause(attempts.pause(error), attempts.hooks.closed)


async def _pages(method: Callable[..., Awaitable[T]], request: Any, attempts: Attempts) -> AsyncIterator[T]:
    while True:
        page: Any = await _call(method, request, attempts)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


async def _pause(seconds: float, stopped: asyncio.Event) -> None:
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((stopping,), timeout=seconds)
    finally:
        stopping.cancel()


class Watch(Generic[T], AsyncIterator[T]):
    """Yields states. Leaving the loop ends it, and so does stop, from any task. Where it has a name, use async with, or stop it."""

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
        with contextlib.suppress(RuntimeError):  # where another task reads it, which ends by itself
            await self._states.aclose()

    def stop(self) -> None:
        """Ends the loop as if there were nothing more."""
        self._stopped.set()

    def _close(self) -> None:
        self._by_close = not self._stopped.is_set()
        self._stopped.set()


async def _follow(call: Callable[..., Any], progress: Progress[T], stopped: asyncio.Event) -> AsyncGenerator[T, None]:
    """Yields what is new over as many streams as it takes."""
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        while not (stopped.is_set() or progress.over):
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
    """Gives the next message, or None where the watch is stopped.

    asyncio.wait_for of Python 3.10 and 3.11 gives a message that arrives as the task is cancelled, and the task lives on.
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
