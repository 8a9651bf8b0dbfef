"""The client for threads."""

import inspect
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

import grpc

from easel import errors, requests, v1
from easel.attempts import Attempts
from easel.base import Base
from easel.connection import APIKey, Connection
from easel.download import Download, Target
from easel.requests import Inputs, Key, Made, Which
from easel.values import Account, Order, Quote, Render, State, UsageDimension, UsageRow, of
from easel.watch import GenerationProgress, Progress

T = TypeVar("T")


class Client(Base["Watch[Render]", "Watch[Account]"]):
    """Orders renders once, watches them, and downloads their files whole.

    Without an address it takes EASEL_ADDR, else localhost:50051; without an api_key, which may be a token, that
    of the file EASEL_API_KEY_FILE, which is read for each call, else EASEL_API_KEY.
    An address is host:port, http://host:port or https://host:port. The way is encrypted unless the host is this machine or
    the address says http://. An API key goes to another host in the clear only where allow_plaintext or
    EASEL_ALLOW_PLAINTEXT=true allows it. Each function has timeout seconds for all its attempts; without them an order, a
    watch and a download go on for as long as it takes, and a read for 5 attempts. The calls of the contract are accounts,
    generations and models; they are sent once, and raise the errors of gRPC.
    """

    _event = threading.Event

    def _connect(self, made: Connection) -> Any:
        if made.credentials is None:
            self._channel = grpc.insecure_channel(made.target, made.options)
        else:
            self._channel = grpc.secure_channel(made.target, made.credentials, made.options)
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()
        return grpc.intercept_channel(self._channel, _Bearer(made.key)) if made.key else self._channel

    def close(self) -> None:
        """Ends every order, watch and download, with an error, and the connection."""
        self._hooks.closed.set()
        with self._hooks.lock:
            streams = tuple(self._streams)
        for stream in streams:
            stream.stop(by_close=True)
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def quote(self, model: str, inputs: Inputs, *, timeout: float | None = None) -> Quote:
        """Says what a render would cost."""
        request = v1.QuoteGenerationRequest(model_id=model, inputs_json=requests.text_of(inputs))
        return of(Quote, _call(self.generations.QuoteGeneration, request, self._attempts(timeout, bounded=True)).quote)

    def order(
        self, model: str, inputs: Inputs, *, key: Key | Made = Made.KEY, max_cost_cents: int | None = None,
        labels: Mapping[str, str] | None = None, timeout: float | None = None,
    ) -> Order:  # fmt: skip
        """Places an order, and sends it again with the same key until its outcome is known.

        The same key is the same order, which is paid once: write it down before, or take the id of a row of yours. Without one
        a key is made, and given to on_key before the order leaves; it is the key of the order and of every error, too.
        Where order_outcome of an error is "unknown", the order may exist: order again with its key.
        """
        if key is Made.KEY:
            key, written = self._hooks.made_key()
            if inspect.iscoroutine(written):
                written.close()
                raise TypeError("nothing awaits a coroutine of on_key: take easel.aio, or a function that writes the key down by itself")
        request = requests.order(model, inputs, key, max_cost_cents, labels)
        raw = _call(self.generations.CreateGeneration, request, self._attempts(timeout, key=request.idempotency_key))
        return Order(key=request.idempotency_key, render=of(Render, raw.generation), replayed=raw.replayed, raw=raw)

    def run(
        self, model: str, inputs: Inputs, *, key: Key | Made = Made.KEY, max_cost_cents: int | None = None,
        labels: Mapping[str, str] | None = None, timeout: float | None = None,
    ) -> Render:  # fmt: skip
        """Orders, watches until the render is finished, and gives it: its text, or what to download.

        A render that did not succeed is a RenderFailed.
        """
        attempts = self._attempts(timeout)
        order = self.order(model, inputs, key=key, max_cost_cents=max_cost_cents, labels=labels, timeout=timeout)
        attempts.key, attempts.generation_id, render = order.key, order.generation_id, order.render
        for render in self._watch(self.generations.WatchGeneration, GenerationProgress(requests.watch(render), attempts)):
            pass
        if render.state != State.SUCCEEDED:
            raise errors.failed(render, order.key)
        return render

    def get(self, render: Which, *, timeout: float | None = None) -> Render:
        """Reads a render once."""
        request = v1.GetGenerationRequest(generation_id=requests.id_of(render))
        attempts = self._attempts(timeout, generation_id=request.generation_id, bounded=True)
        return of(Render, _call(self.generations.GetGeneration, request, attempts).generation)

    def list(
        self, *, model: str = "", states: Iterable[State] = (), labels: Mapping[str, str] | None = None, owner: str = "",
        timeout: float | None = None,
    ) -> Iterator[Render]:  # fmt: skip
        """Yields the renders that match, the newest first, over all pages."""
        request = v1.ListGenerationsRequest(filter=requests.chosen(model, states, labels or {}, owner))
        for page in _pages(self.generations.ListGenerations, request, self._attempts(timeout, bounded=True)):
            yield from (of(Render, one) for one in page.generations)

    def usage(
        self, start: datetime | None = None, end: datetime | None = None, *, by: Iterable[UsageDimension] = (UsageDimension.MODEL,),
        label: str = "", timeout: float | None = None,
    ) -> Iterator[UsageRow]:  # fmt: skip
        """Yields what was ordered and spent, over all pages. label is the name where it is told apart by LABEL."""
        for page in _pages(self.accounts.ListUsage, requests.usage(start, end, by, label), self._attempts(timeout, bounded=True)):
            yield from (of(UsageRow, one) for one in page.rows)

    def download(self, render: Which, to: Target, *, timeout: float | None = None) -> None:
        """Writes the file of a render to a path or an open file, and checks every byte.

        It goes on where it broke off. A path has its name when the file is whole and on the disk.
        """
        attempts = self._attempts(timeout, generation_id=requests.id_of(render))
        with Download(attempts.generation_id, to) as rest:
            while True:
                try:
                    for message in self.generations.DownloadGeneration(rest.request, timeout=attempts.left()):
                        rest.take(message.chunk)
                        attempts.answered()
                    return rest.finish()
                except (grpc.RpcError, ValueError) as error:
                    delay = attempts.pause(error)
                rest.resume()
                _pause(delay, self._hooks.closed)

    def _watch(self, call: Callable[..., Any], progress: Progress[T]) -> "Watch[T]":
        stream = _Stream()
        with self._hooks.lock:
            self._streams.add(stream)
        return Watch(stream, call, progress)

def _call(method: Callable[..., T], request: Any, attempts: Attempts) -> T:
    """Calls until there is an answer."""
    while True:
        try:
            answer = method(request, timeout=attempts.left())
            attempts.answered()
            return answer
        except (grpc.RpcError, ValueError) as error:  # a ValueError is of a closed channel
            _pause(attempts.pause(error), attempts.hooks.closed)


def _pages(method: Callable[..., T], request: Any, attempts: Attempts) -> Iterator[T]:
    while True:
        page: Any = _call(method, request, attempts)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def _pause(seconds: float, stopped: threading.Event) -> None:
    stopped.wait(seconds)


class Watch(Generic[T], Iterator[T]):
    """Yields states. Leaving the loop ends it, and so does stop, from any thread. Where it has a name, use with, or stop it."""

    def __init__(self, stream: "_Stream", call: Callable[..., Any], progress: Progress[T]) -> None:
        self._stream = stream
        self._states = stream.follow(call, progress)

    def __enter__(self) -> "Watch[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __next__(self) -> T:
        return next(self._states)

    def stop(self) -> None:
        """Ends the loop as if there were nothing more."""
        self._stream.stop()


class _Stream:
    """Is the stream of the moment. It does not know its Watch, which so ends with the loop."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.by_close = False
        self.current: Any = None

    def stop(self, *, by_close: bool = False) -> None:
        if not self.stopped.is_set():
            self.by_close = by_close
        self.stopped.set()
        if self.current:
            self.current.cancel()

    def follow(self, call: Callable[..., Any], progress: Progress[T]) -> Iterator[T]:
        """Yields what is new over as many streams as it takes."""
        yield from self.over(call, progress)
        if self.by_close:
            raise progress.attempts.closed()

    def over(self, call: Callable[..., Any], progress: Progress[T]) -> Iterator[T]:
        while not (self.stopped.is_set() or progress.over):
            try:
                self.current = call(progress.begin(), timeout=progress.attempts.left())
                for message in self.unless_silent(progress):
                    if (newer := progress.take(message)) is not None:
                        yield newer
                if progress.has_goal:
                    return
                delay = None if self.stopped.is_set() else progress.pause()
            except (grpc.RpcError, errors.Unavailable, ValueError) as error:
                delay = None if self.stopped.is_set() else progress.pause(error)
            finally:
                if self.current:
                    self.current.cancel()
            if delay is not None:
                _pause(delay, self.stopped)

    def unless_silent(self, progress: Progress[T]) -> Iterator[Any]:
        """Cancels a stream that brings nothing for so long. Time that the caller spends is no silence."""
        silent = threading.Event()

        def give_up() -> None:
            silent.set()
            self.current.cancel()

        while not self.stopped.is_set():
            timer = threading.Timer(progress.silence, give_up)
            timer.daemon = True
            timer.start()
            try:
                message = next(self.current, None)
            except grpc.RpcError:
                if silent.is_set():
                    raise progress.silent() from None
                raise
            finally:
                timer.cancel()
            if message is None:
                return
            yield message


class _Details(NamedTuple):
    method: str
    timeout: float | None
    metadata: Sequence[tuple[str, str | bytes]] | None
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class _Bearer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Sends a secret with every call."""

    def __init__(self, key: APIKey) -> None:
        self.key = key

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        d = client_call_details
        more = (*(d.metadata or ()), self.key.header())
        return continuation(_Details(d.method, d.timeout, more, d.credentials, d.wait_for_ready, d.compression), request)

    intercept_unary_stream = intercept_unary_unary
