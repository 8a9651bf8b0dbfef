"""The client for asyncio: a function ends when its task is cancelled, as by asyncio.timeout."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import grpc
import grpc.aio

from easel import v1
from easel.client import OPTIONS
from easel.download import Download, Target, opened
from easel.errors import Attempts, FailedError, repeat_helps
from easel.watch import AccountWatch, GenerationsWatch, GenerationWatch, T, Watch


def connect(
    target: str, secret: str = "", credentials: grpc.ChannelCredentials | None = None, options: Sequence[tuple[str, Any]] = ()
) -> "Client":
    """Is easel.connect for asyncio."""
    every = [*OPTIONS, *options]
    bearers: list[grpc.aio.ClientInterceptor] = [_BearerOnce(secret), _BearerOfStreams(secret)] if secret else []
    if credentials is None:
        channel = grpc.aio.insecure_channel(target, every, interceptors=bearers)
    else:
        channel = grpc.aio.secure_channel(target, credentials, every, interceptors=bearers)
    return Client(channel, channel.close)


async def _nothing() -> None:
    pass


class Client:
    """Is easel.Client for asyncio."""

    def __init__(self, channel: grpc.aio.Channel, close: Callable[[], Awaitable[None]] = _nothing) -> None:
        self.accounts = v1.AccountServiceStub(channel)
        self.generations = v1.GenerationServiceStub(channel)
        self.models = v1.ModelServiceStub(channel)
        self.close = close

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def order(self, request: v1.CreateGenerationRequest) -> v1.Generation:
        """Is Client.order of easel."""
        if not request.idempotency_key:
            raise ValueError("an order needs an idempotency_key that was written down before")
        attempts = Attempts()
        while True:
            try:
                return (await self.generations.CreateGeneration(request)).generation
            except grpc.RpcError as error:
                if not repeat_helps(error):
                    raise
                await asyncio.sleep(attempts.pause(error))

    def watch(
        self, generation_id: str, *, until: "v1.WatchUntil.ValueType" = v1.WatchUntil.WATCH_UNTIL_TERMINAL,
        known_etag: str = "", heartbeat: float = 10,
    ) -> AsyncIterator[v1.Generation]:  # fmt: skip
        """Is Client.watch of easel."""
        request = v1.WatchGenerationRequest(generation_id=generation_id, until=until, known_etag=known_etag)
        request.heartbeat_interval.FromTimedelta(timedelta(seconds=heartbeat))
        return _follow(self.generations.WatchGeneration, GenerationWatch(request))

    def watch_many(self, request: v1.WatchGenerationsRequest) -> AsyncIterator[v1.Generation]:
        """Is Client.watch_many of easel."""
        return _follow(self.generations.WatchGenerations, GenerationsWatch(request))

    def watch_account(self, request: v1.WatchAccountRequest | None = None) -> AsyncIterator[v1.Account]:
        """Is Client.watch_account of easel."""
        return _follow(self.accounts.WatchAccount, AccountWatch(request or v1.WatchAccountRequest()))

    async def download(self, generation_id: str, to: Target) -> None:
        """Is Client.download of easel."""
        attempts = Attempts()
        with opened(to) as file:
            rest = Download(generation_id, file)
            while True:
                try:
                    async for message in self.generations.DownloadGeneration(rest.request):
                        await asyncio.to_thread(rest.take, message.chunk)
                        attempts.failures = 0
                    return rest.check()
                except grpc.RpcError as error:
                    if not repeat_helps(error):
                        raise
                    await asyncio.sleep(attempts.pause(error))

    async def run(self, request: v1.CreateGenerationRequest) -> v1.Generation:
        """Is Client.run of easel."""
        render = await self.order(request)
        async for render in self.watch(render.generation_id):
            pass
        if render.state != v1.State.STATE_SUCCEEDED:
            raise FailedError(render)
        return render


async def _follow(call: Callable[[Any], Any], watch: Watch[T]) -> AsyncIterator[T]:
    """Yields what is new over as many streams as it takes."""
    while True:
        stream = call(watch.begin())
        messages = aiter(stream)
        try:
            while True:
                message = await _unless_silent(messages, watch.silence)
                if (newer := watch.take(message)) is not None:
                    yield newer
        except StopAsyncIteration:
            if watch.has_goal:
                return
            delay = watch.pause()
        except (grpc.RpcError, asyncio.TimeoutError) as error:
            delay = watch.pause(error)
        finally:
            stream.cancel()
        await asyncio.sleep(delay)


async def _unless_silent(messages: AsyncIterator[Any], limit: float) -> Any:
    """Gives the next message, or raises a TimeoutError where none comes for so long.

    asyncio.wait_for of Python 3.10 and 3.11 gives a message that arrives as the task is cancelled, and the task lives on.
    """
    coming = asyncio.ensure_future(anext(messages))
    try:
        if not (await asyncio.wait((coming,), timeout=limit))[0]:
            raise asyncio.TimeoutError
        if coming.cancelled():  # not by the caller, but by the end of the channel, which no repeat mends
            raise grpc.aio.UsageError("the channel is closed")
        return coming.result()
    finally:
        coming.cancel()


class _Bearer:
    def __init__(self, secret: str) -> None:
        self.secret = "Bearer " + secret

    def signed(self, details: Any) -> Any:
        metadata = grpc.aio.Metadata(*(details.metadata or ()), ("authorization", self.secret))
        return details._replace(metadata=metadata)


class _BearerOnce(_Bearer, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(self.signed(client_call_details), request)


class _BearerOfStreams(_Bearer, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(self.signed(client_call_details), request)
