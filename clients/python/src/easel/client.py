"""The client for threads."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import grpc

from easel import v1
from easel.download import Download, Target, opened
from easel.errors import Attempts, FailedError, repeat_helps
from easel.watch import AccountWatch, GenerationsWatch, GenerationWatch, T, Watch

# The first retries unary calls, the others find out when the server is gone.
OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.service_config", v1.SERVICE_CONFIG),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.ping_timeout_ms", 5_000),
)


def connect(
    target: str, secret: str = "", credentials: grpc.ChannelCredentials | None = None, options: Sequence[tuple[str, Any]] = ()
) -> "Client":
    """Makes a client of the server at target. The secret, an API key or a service token, goes with every call.

    A server with a certificate needs credentials: grpc.ssl_channel_credentials().
    """
    every = [*OPTIONS, *options]
    channel = grpc.insecure_channel(target, every) if credentials is None else grpc.secure_channel(target, credentials, every)
    return Client(grpc.intercept_channel(channel, _Bearer(secret)) if secret else channel, channel.close)


class Client:
    """Has the stubs of the contract, and what goes on where their calls break off.

    Each function has timeout seconds for all its attempts; without them it goes on for as long as it takes.
    """

    def __init__(self, channel: grpc.Channel, close: Callable[[], None] = lambda: None) -> None:
        self.accounts = v1.AccountServiceStub(channel)
        self.generations = v1.GenerationServiceStub(channel)
        self.models = v1.ModelServiceStub(channel)
        self.close = close

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def order(self, request: v1.CreateGenerationRequest, *, timeout: float | None = None) -> v1.Generation:
        """Places an order, and sends it again with the same idempotency_key until its outcome is known.

        Write the key down before: the same request with it again gives the same render, which is paid once.
        Where order_outcome of the error is "unknown", the order may exist: keep the key.
        """
        if not request.idempotency_key:
            raise ValueError("an order needs an idempotency_key that was written down before")
        attempts = Attempts(timeout)
        while True:
            try:
                return self.generations.CreateGeneration(request, timeout=attempts.left()).generation
            except grpc.RpcError as error:
                if not repeat_helps(error):
                    raise
                time.sleep(attempts.pause(error))

    def watch(
        self, generation_id: str, *, until: "v1.WatchUntil.ValueType" = v1.WatchUntil.WATCH_UNTIL_TERMINAL,
        known_etag: str = "", heartbeat: float = 10, timeout: float | None = None,
    ) -> Iterator[v1.Generation]:  # fmt: skip
        """Yields the state of a render as it is, and each newer one until the goal.

        It goes on through a server that restarts or falls silent for three heartbeats, and raises what
        watching again can't mend.
        """
        request = v1.WatchGenerationRequest(generation_id=generation_id, until=until, known_etag=known_etag)
        request.heartbeat_interval.FromTimedelta(timedelta(seconds=heartbeat))
        return _follow(self.generations.WatchGeneration, GenerationWatch(request, timeout))

    def watch_many(self, request: v1.WatchGenerationsRequest, *, timeout: float | None = None) -> Iterator[v1.Generation]:
        """Yields the state of many generations as it is, and each newer one.

        Where the request names generations, it ends when all of them have reached the goal. Else it watches all
        there are, without an end. A deleted generation comes as STATE_DELETED. It goes on as watch does, and
        repeats no state of the 10,000 generations that changed last.
        """
        return _follow(self.generations.WatchGenerations, GenerationsWatch(request, timeout))

    def watch_account(
        self, request: v1.WatchAccountRequest | None = None, *, timeout: float | None = None
    ) -> Iterator[v1.Account]:  # fmt: skip
        """Yields the account as it is, and each newer one, without an end.

        It goes on as watch does, and repeats no account.
        """
        return _follow(self.accounts.WatchAccount, AccountWatch(request or v1.WatchAccountRequest(), timeout))

    def download(self, generation_id: str, to: Target, *, timeout: float | None = None) -> None:
        """Writes the file of a render to a path or an open file, and checks every byte.

        It goes on where it broke off. A path has its name when the file is whole.
        """
        attempts = Attempts(timeout)
        with opened(to) as file:
            rest = Download(generation_id, file)
            while True:
                try:
                    for message in self.generations.DownloadGeneration(rest.request, timeout=attempts.left()):
                        rest.take(message.chunk)
                        attempts.failures = 0
                    return rest.check()
                except grpc.RpcError as error:
                    if not repeat_helps(error):
                        raise
                    time.sleep(attempts.pause(error))

    def run(self, request: v1.CreateGenerationRequest, *, timeout: float | None = None) -> v1.Generation:
        """Orders, watches until the render is finished, and gives it: its text, or what to download.

        A render that did not succeed is a FailedError.
        """
        attempts = Attempts(timeout)
        render = self.order(request, timeout=timeout)
        for render in self.watch(render.generation_id, timeout=attempts.left()):
            pass
        if render.state != v1.State.STATE_SUCCEEDED:
            raise FailedError(render)
        return render


def _follow(call: Callable[..., Any], watch: Watch[T]) -> Iterator[T]:
    """Yields what is new over as many streams as it takes."""
    while True:
        stream = call(watch.begin(), timeout=watch.attempts.left())
        try:
            for message in _unless_silent(stream, watch.silence):
                if (newer := watch.take(message)) is not None:
                    yield newer
        except grpc.RpcError as error:
            delay = watch.pause(error)
        else:
            if watch.has_goal:
                return
            delay = watch.pause()
        finally:
            stream.cancel()
        time.sleep(delay)


def _unless_silent(stream: Any, limit: float) -> Iterator[Any]:
    """Cancels a stream that brings nothing for so long. Time that the caller spends is no silence."""
    while True:
        silence = threading.Timer(limit, stream.cancel)
        silence.daemon = True
        silence.start()
        try:
            message = next(stream, None)
        finally:
            silence.cancel()
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

    def __init__(self, secret: str) -> None:
        self.header = ("authorization", "Bearer " + secret)

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        d = client_call_details
        more = (*(d.metadata or ()), self.header)
        return continuation(_Details(d.method, d.timeout, more, d.credentials, d.wait_for_ready, d.compression), request)

    intercept_unary_stream = intercept_unary_unary
