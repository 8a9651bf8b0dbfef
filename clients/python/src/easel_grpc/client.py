"""The client for threads."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import grpc

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


class Client(Base["Watch[Render]", "Watch[Event]"]):
    """The client for threads. It orders each render once, watches it, and verifies downloaded files.

    An address is host:port, http://host:port or https://host:port. The default is EASEL_ADDR, or localhost:50051 if EASEL_ADDR
    is unset. EASEL_TLS_CA_FILE names a file with PEM certificates that the client trusts instead of the system's. If the
    address has no scheme, the connection uses TLS. The only exception is a loopback address if neither EASEL_TLS_CA_FILE nor
    credentials is set.

    api_key is an API key or a token. By default, each call reads the key from the file named by EASEL_API_KEY_FILE. If that
    variable is unset, the default is the value of EASEL_API_KEY. The key is sent without TLS to a host that is not loopback
    only if allow_plaintext or EASEL_ALLOW_PLAINTEXT=true allows it.

    timeout is the total time in seconds for a read or an order, by default 60 for a read and 900 for an order. attempts is the
    number of failed attempts after which a read fails, by default 5. A call can override both. An order, watch or download
    fails after 100 consecutive failed attempts, which take about 15 minutes. If a call keeps failing for five seconds, the
    logger easel_grpc logs a warning.

    accounts, catalog and generations are the generated gRPC stubs. Their calls are not retried, and raise gRPC's errors.
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
        """Fails the calls in progress and closes the connection. Orders that the server has accepted are not canceled."""
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

    def account(self, **limits: Unpack[Limits]) -> Account:
        """Returns the account's balance and the caller's budgets.

        Call it at startup with timeout=10 to detect a wrong address, API key or certificate.
        """
        return _call(self._account(limits))

    def models(self, **limits: Unpack[Limits]) -> Iterator[Model]:
        """Yields the models that the caller can order. It requests them page by page."""
        return _pages(self._models(limits))

    def model(self, model_id: str, **limits: Unpack[Limits]) -> Model:
        """Returns the model with this ID, including its input fields."""
        return _call(self._model(model_id, limits))

    def quote(self, model: str, inputs: Inputs, **limits: Unpack[Limits]) -> Quote:
        """Returns the current price of a render."""
        return _call(self._quote(model, inputs, limits))

    def order(self, model: str, inputs: Inputs, **options: Unpack[OrderOptions]) -> Order:
        """Places an order, and retries with the same key until the outcome is known.

        If you send the same order again with the same key, you get the same render and are not charged again. Use the ID of
        your own record as the key, or store the key before you order. If key is omitted, the client creates a key, and passes
        it to on_key before it sends the order. The order and its errors contain the key. If an error's order_outcome is
        "unknown", the order may exist. Keep the key and send the order again with the same key.
        """
        limits = limits_of(options, OrderOptions)
        key = options.get("key", Made.KEY)
        if isinstance(key, Made):
            key, written = self._hooks.made_key()
            if inspect.iscoroutine(written):
                written.close()
                raise TypeError("on_key must not be a coroutine function, because this client cannot await it; use easel_grpc.aio.Client or a plain function")
        return _call(self._order(model, inputs, key, options, limits))

    def run(self, model: str, inputs: Inputs, **options: Unpack[OrderOptions]) -> Render:
        """Places an order, waits until the render is finished, and returns the render.

        If the render did not succeed, it raises RenderFailed.
        """
        attempts = self._attempts(STREAM, "WatchGeneration", limits_of(options, OrderOptions))
        order = self.order(model, inputs, **options)
        attempts.key, attempts.generation_id, render = order.key, order.generation_id, order.render
        for render in self._watch(self.generations.WatchGeneration, GenerationProgress(requests.watch(render), attempts)):
            pass
        if render.state != State.SUCCEEDED:
            raise errors.failed(render, order.key)
        return render

    def wait(self, render: Which, *, until: WatchUntil = WatchUntil.TERMINAL, **limits: Unpack[Limits]) -> Render:
        """Waits until a render is finished, and returns the render.

        With until=WatchUntil.SETTLED, it also waits until the cost is final. It handles failures in the same way as watch().
        """
        for newest in self.watch(render, until=until, **limits):  # noqa: B007
            pass
        return newest

    def get(self, render: Which, **limits: Unpack[Limits]) -> Render:
        """Returns the current state of a render."""
        return _call(self._get(render, limits))

    def list(self, **options: Unpack[ListOptions]) -> Iterator[Render]:
        """Yields the matching renders, most recently ordered first. It requests them page by page."""
        return _pages(self._list(options))

    def usage(
        self, start: datetime | None = None, end: datetime | None = None, *, by: Iterable[UsageDimension] = (UsageDimension.MODEL,),
        label: str = "", **limits: Unpack[Limits],
    ) -> Iterator[UsageRow]:  # fmt: skip
        """Yields the number and the cost of orders, with one row for each combination of values of the dimensions.

        It requests the rows page by page. The argument label is the name of the label by which the dimension LABEL groups
        orders.
        """
        return _pages(self._usage(start, end, by, label, limits))

    def delete(self, render: Which, *, force: bool = False, **limits: Unpack[Limits]) -> None:
        """Permanently deletes a render and its result. If the render does not exist, delete does nothing, so a retry is safe.

        If force is true, it also deletes an unfinished render. The catalog does not always refund the price of such a render.
        """
        return _call(self._delete(render, force, limits))

    def download(self, render: Which, to: Target, **limits: Unpack[Limits]) -> None:
        """Downloads a render's file to a path or an open file, and resumes after a failure.

        A file appears at the path only when it is complete, verified and on disk. An open file receives the bytes as they
        arrive and is not closed.
        """
        attempts = self._attempts(STREAM, "DownloadGeneration", limits, generation_id=requests.id_of(render))
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


def _call(call: Call[T]) -> T:
    """Makes a call, and repeats it until it succeeds or an error is final. It returns the value in the response."""
    attempts = call.attempts
    while True:
        try:
            answer = call.stub(call.request, timeout=attempts.left())
            attempts.answered()
            return call.value(answer)
        except (grpc.RpcError, ValueError) as error:  # a closed channel raises ValueError
            _pause(attempts.pause(error), attempts.hooks.closed)


def _pages(call: Call[list[T]]) -> Iterator[T]:
    token, value = "", call.value

    def read(page: Any) -> list[T]:
        nonlocal token
        token = page.next_page_token
        return value(page)

    call.value = read
    while True:
        call.attempts.begin()
        yield from _call(call)
        if not token:
            return
        call.request.page_token = token


def _pause(seconds: float, stopped: threading.Event) -> None:
    stopped.wait(seconds)


class Watch(Generic[T], Iterator[T]):
    """An iterator over the states or events of a watch. It ends when the watch is complete or a thread calls stop().

    If the caller leaves the loop early, the watch ends when no variable refers to it. To end it immediately, use it in a with
    block or call stop().
    """

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
        """Ends the loop over the watch without an error."""
        self._stream.stop()


class _Stream:
    """The current stream of a watch. It has no reference to the Watch, so that Python can destroy an abandoned Watch."""

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
        """Yields new states, and reopens the stream after each failure. It raises an error when the client is closed."""
        yield from self.over(call, progress)
        if self.by_close:
            raise progress.attempts.closed()

    def over(self, call: Callable[..., Any], progress: Progress[T]) -> Iterator[T]:
        while not self.stopped.is_set():
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
        """Yields messages, and cancels the stream if no message arrives in time. The time that the caller spends in its loop does not count."""
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
    """Adds the API key to every call."""

    def __init__(self, key: APIKey) -> None:
        self.key = key

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        d = client_call_details
        more = (*(d.metadata or ()), self.key.header())
        return continuation(_Details(d.method, d.timeout, more, d.credentials, d.wait_for_ready, d.compression), request)

    intercept_unary_stream = intercept_unary_unary
