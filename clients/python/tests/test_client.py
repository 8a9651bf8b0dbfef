"""Tests of the clients for threads and for asyncio against a scripted server."""

import asyncio
import contextlib
import hashlib
import io
import logging
import socket
import socketserver
import subprocess
import sys
import threading
import time
import traceback
import unittest
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent import futures
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import google.rpc.error_details_pb2 as details_pb2  # type: ignore[import-untyped]
import google.rpc.status_pb2 as status_pb2  # type: ignore[import-untyped]
import google_crc32c
import grpc
import grpc.aio

import easel_grpc as easel
from easel_grpc import State, aio, attempts, errors, v1, values
from easel_grpc.attempts import Limits
from easel_grpc.connection import connection
from easel_grpc.v1 import reasons
from easel_grpc.watch import GenerationProgress, GenerationsProgress

Answer = Callable[[Any], Any]
ORDER = ("studio/haiku", {"prompt": "rain"})
WHOLE = b"easel" * 1000
STAY = object()  # used instead of a message; keeps the stream silent until the client cancels it


def status(reason: str = "", delay: int | None = None, **metadata: str) -> Any:
    """Returns a google.rpc.Status. It has an ErrorInfo if reason is set, and a RetryInfo if delay is set."""
    found = status_pb2.Status()
    if reason:
        found.details.add().Pack(details_pb2.ErrorInfo(domain="easel", reason=reason, metadata=metadata))
    if delay is not None:
        found.details.add().Pack(details_pb2.RetryInfo(retry_delay={"seconds": delay}))
    return found


class Failure(Exception):
    """An error that the server returns for a call."""

    def __init__(self, code: str, reason: str = "", delay: int | None = None, **metadata: str) -> None:
        self.code = getattr(grpc.StatusCode, code)
        self.trailer = (("grpc-status-details-bin", status(reason, delay, **metadata).SerializeToString()),)


class Script(v1.GenerationServiceServicer, v1.AccountServiceServicer):
    """A scripted server. It responds to the n-th call with the n-th answer, and to further calls with the last answer."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = answers
        self.requests: list[Any] = []
        self.called = threading.Semaphore(0)

    def await_calls(self, count: int) -> None:
        for _ in range(count):
            assert self.called.acquire(timeout=10)

    def next(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        self.called.release()
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        try:
            return answer(request)
        except Failure as failure:
            context.set_trailing_metadata(failure.trailer)
            context.abort(failure.code, "scripted")

    def each(self, request: Any, context: Any) -> Iterator[Any]:
        self.left = threading.Event()
        context.add_callback(self.left.set)
        for message in self.next(request, context):
            if message is STAY:
                self.left.wait(30)
                return
            if isinstance(message, Failure):
                context.set_trailing_metadata(message.trailer)
                context.abort(message.code, "scripted")
            yield message

    GetAccount = next
    CreateGeneration = next
    QuoteGeneration = next
    GetGeneration = next
    ListGenerations = next
    ListUsage = next
    WatchGeneration = each
    WatchGenerations = each
    WatchEvents = each
    DownloadGeneration = each


class Health(grpc.GenericRpcHandler):
    """Sends the server's health as a message of grpc.health.v1."""

    def __init__(self, message: bytes) -> None:
        self.message = message

    def service(self, handler_call_details: Any) -> Any:
        return grpc.unary_stream_rpc_method_handler(self.watch) if handler_call_details.method == "/grpc.health.v1.Health/Watch" else None

    def watch(self, _: bytes, context: Any) -> Iterator[bytes]:
        left = threading.Event()
        context.add_callback(left.set)
        yield self.message
        left.wait(30)


def failing(*args: Any, **named: Any) -> Answer:
    def answer(_: Any) -> Any:
        raise Failure(*args, **named)

    return answer


def sending(*messages: Any) -> Answer:
    return lambda _: messages


def update(etag: str, state: State) -> v1.WatchGenerationResponse:
    return v1.WatchGenerationResponse(update=v1.GenerationUpdate(generation=generation("gen_1", etag, state)))


def one_of_many(generation_id: str, etag: str, state: State = State.QUEUED) -> v1.WatchGenerationsResponse:
    return v1.WatchGenerationsResponse(update=v1.GenerationUpdate(generation=generation(generation_id, etag, state)))


def generation(generation_id: str, etag: str, state: State) -> v1.Generation:
    return v1.Generation(generation_id=generation_id, etag=etag, state=v1.State.ValueType(state))


# For each kind of watch: the name of the method, its arguments and an update.
WATCHES: tuple[tuple[str, tuple[Any, ...], Any], ...] = (
    ("watch", ("gen_1",), update("e1", State.QUEUED)),
    ("watch_many", (["gen_1"],), one_of_many("gen_1", "e1")),
    ("watch_many", (), one_of_many("gen_1", "e1")),
    ("events", (), v1.WatchEventsResponse(event=v1.Event(event_id="evt_1"), resume_token="t1")),
)


def pieces(to: int, spoil: Callable[[v1.ContentChunk], None] = lambda _: None, end: Failure | None = None) -> Answer:
    def answer(request: v1.DownloadGenerationRequest) -> Iterator[Any]:
        for at in range(request.read_offset, to, 1000):
            data = WHOLE[at : min(at + 1000, to)]
            chunk = v1.ContentChunk(offset=at, data=data, crc32c=google_crc32c.value(data))
            if at == request.read_offset:
                chunk.info.etag, chunk.info.size_bytes = "bytes-1", len(WHOLE)
            if request.read_offset == 0 and at + 1000 >= len(WHOLE):
                chunk.summary.sha256 = hashlib.sha256(WHOLE).hexdigest()
            spoil(chunk)
            yield v1.DownloadGenerationResponse(chunk=chunk)
        if end:
            yield end

    return answer


class Timer(threading.Timer):
    """A timer that uses the test's clock."""

    def run(self) -> None:
        due = time.monotonic() + self.interval
        while not self.finished.wait(0.01):
            if time.monotonic() >= due:
                self.function()
                return


class Threads:
    """Calls the client for threads. The test's clock advances only while the client pauses or when the script advances it."""

    pause = "easel_grpc.client._pause"

    def __init__(self, addr: str, script: Script) -> None:
        self.addr = addr
        self.script = script
        self.now = 0.0
        self.hooks: dict[str, Any] = {}
        self.paused_once = threading.Event()

    def pass_time(self, seconds: float, stopped: Any = None) -> None:
        self.now += seconds

    def silence(self, _: Any) -> list[Any]:
        """Advances the clock without sending a message, until the client has abandoned the stream."""
        before = len(self.waits())
        for _ in range(1000):
            if len(self.waits()) > before:
                break
            self.pass_time(5)
            threading.Event().wait(0.01)
        return []

    def waits(self) -> list[float]:
        return [call.args[0] for call in self.paused.call_args_list]

    @contextlib.contextmanager
    def clock(self) -> Iterator[None]:
        with (
            mock.patch(self.pause, side_effect=self.pass_time) as self.paused,
            mock.patch("time.monotonic", lambda: self.now),
            mock.patch("threading.Timer", Timer),
            mock.patch("random.uniform", return_value=1),
        ):
            yield

    def call(self, name: str, *args: Any, first: int = 0, **named: Any) -> Any:
        """Returns the result of a call, or the values that it yields.

        If first is set, it leaves the loop after that many values, and checks that the client ends the stream.
        """
        with self.clock(), easel.Client(self.addr, "", **self.hooks) as client:
            found = getattr(client, name)(*args, **named)
            if not isinstance(found, Iterator):
                return found
            states = self.take(found, first)
            del found
            assert not first or self.script.left.wait(10)
            return states

    def stop(self, name: str, *args: Any) -> list[Any]:
        """Stops a watch from another thread after its first state."""
        with self.clock(), easel.Client(self.addr, "") as client:
            watch = getattr(client, name)(*args)
            states = [next(watch)]
            stopping = threading.Timer(0, watch.stop)
            stopping.start()
            states.extend(watch)
            stopping.join()
            assert self.script.left.wait(10)
            return states

    def download_twice(self, *args: Any) -> None:
        """Runs two concurrent downloads to the same target."""
        with easel.Client(self.addr, "") as client, futures.ThreadPoolExecutor(2) as both:
            for one in [both.submit(client.download, *args) for _ in range(2)]:
                one.result(10)

    def close_within(self, name: str, *args: Any, secret: str) -> None:
        """Closes the client in the loop of a watch, and expects that the loop raises an error."""
        with self.clock(), easel.Client(self.addr, secret) as client:
            watch = getattr(client, name)(*args)
            next(watch)
            client.close()
            try:
                next(watch)
            except easel.Error as error:
                assert str(error) == "the client is closed", error
                return
            raise AssertionError("the watch continues")

    def close_under(self, name: str, *args: Any, calls: int, **named: Any) -> easel.Error:
        """Closes the client when the server has received the given number of calls, and returns the error from the running call."""
        with easel.Client(self.addr, "", on_retry=lambda *_: self.paused_once.set()) as client, futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(getattr(client, name), *args, **named)
            self.script.await_calls(calls)
            self.paused_once.wait(0.2)
            client.close()
            error = running.exception(10)
            assert isinstance(error, easel.Error), error
            return error

    def call_closed(self, name: str, *args: Any) -> None:
        client = easel.Client(self.addr, "")
        client.close()
        found = getattr(client, name)(*args)
        if isinstance(found, Iterator):
            next(found)

    def leave_block(self, name: str, *args: Any) -> None:
        """Leaves the with block of a watch after the watch's first state, while a variable still refers to the watch."""
        with easel.Client(self.addr, "") as client:
            with getattr(client, name)(*args) as watch:
                next(watch)
            assert self.script.left.wait(10)
            assert list(watch) == []

    def take(self, watch: Iterator[Any], first: int) -> list[Any]:
        states = []
        for state in watch:
            states.append(state)
            if len(states) == first:
                break
        return states


class Tasks(Threads):
    """Calls the client for asyncio, with the test's clock."""

    pause = "easel_grpc.aio._pause"

    def pass_time(self, seconds: float, stopped: Any = None) -> None:
        super().pass_time(seconds)
        self.loop.call_soon_threadsafe(lambda: None)  # wakes the loop, which then checks its clock

    def call(self, name: str, *args: Any, first: int = 0, **named: Any) -> Any:
        async def go() -> Any:
            self.loop = asyncio.get_running_loop()
            async with aio.Client(self.addr, "", **self.hooks) as client:
                found = getattr(client, name)(*args, **named)
                if not isinstance(found, AsyncIterator):
                    return await found
                states = await self.take_async(found, first)
                del found
                assert not first or await asyncio.to_thread(self.script.left.wait, 10)
                return states

        with self.clock():
            return asyncio.run(go())

    def stop(self, name: str, *args: Any) -> list[Any]:
        async def go() -> list[Any]:
            self.loop = asyncio.get_running_loop()
            async with aio.Client(self.addr, "") as client:
                watch = getattr(client, name)(*args)
                states = [await anext(watch)]
                self.loop.call_soon(watch.stop)
                states.extend([state async for state in watch])
                assert await asyncio.to_thread(self.script.left.wait, 10)
                return states

        with self.clock():
            return asyncio.run(go())

    def download_twice(self, *args: Any) -> None:
        async def go() -> None:
            async with aio.Client(self.addr, "") as client:
                await asyncio.gather(*(client.download(*args) for _ in range(2)))

        asyncio.run(go())

    def close_within(self, name: str, *args: Any, secret: str) -> None:
        async def go() -> None:
            self.loop = asyncio.get_running_loop()
            async with aio.Client(self.addr, secret) as client:
                watch = getattr(client, name)(*args)
                await anext(watch)
                coming = asyncio.ensure_future(anext(watch))
                await client.close()
                try:
                    await coming
                except easel.Error as error:
                    assert str(error) == "the client is closed", error
                    return
                raise AssertionError("the watch continues")

        with self.clock():
            asyncio.run(go())

    def close_under(self, name: str, *args: Any, calls: int, **named: Any) -> easel.Error:
        async def go() -> easel.Error:
            async with aio.Client(self.addr, "", on_retry=lambda *_: self.paused_once.set()) as client:
                running = asyncio.ensure_future(getattr(client, name)(*args, **named))
                await asyncio.to_thread(self.script.await_calls, calls)
                await asyncio.to_thread(self.paused_once.wait, 0.2)
                await client.close()
                await asyncio.wait((running,), timeout=10)
                error = running.exception()
                assert isinstance(error, easel.Error), error
                return error

        return asyncio.run(go())

    def call_closed(self, name: str, *args: Any) -> None:
        async def go() -> None:
            client = aio.Client(self.addr, "")
            await client.close()
            found = getattr(client, name)(*args)
            await (anext(found) if isinstance(found, AsyncIterator) else found)

        asyncio.run(go())

    def leave_block(self, name: str, *args: Any) -> None:
        async def go() -> None:
            async with aio.Client(self.addr, "") as client:
                async with getattr(client, name)(*args) as watch:
                    await anext(watch)
                assert await asyncio.to_thread(self.script.left.wait, 10)
                assert [state async for state in watch] == []

        asyncio.run(go())

    async def take_async(self, watch: AsyncIterator[Any], first: int) -> list[Any]:
        states = []
        async for state in watch:
            states.append(state)
            if len(states) == first:
                break
        return states


def hooks() -> attempts.Hooks:
    return attempts.Hooks("here", None, None, None, logging.getLogger("easel_grpc"), threading.Event())


class ClientTest(unittest.TestCase):
    kind: type[Threads] = Threads

    def play(self, *answers: Answer, serving: bool = True) -> tuple[Script, Threads]:
        server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[Health(b"\x08\x01" if serving else b"\x08\x02")])
        script = Script(*answers)  # type: ignore[abstract]
        v1.add_GenerationServiceServicer_to_server(script, server)
        v1.add_AccountServiceServicer_to_server(script, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        return script, self.kind(f"127.0.0.1:{port}", script)

    def test_order_retries_with_the_same_key_until_the_outcome_is_known(self) -> None:
        script, client = self.play(
            failing("UNAVAILABLE"),
            failing("UNAVAILABLE", "SUBMISSION_OUTCOME_UNKNOWN", delay=60),
            failing("ABORTED", "SUBMISSION_IN_PROGRESS", delay=1),
            failing("UNAVAILABLE", "A_NEWER_ONE"),
            lambda _: v1.CreateGenerationResponse(generation=v1.Generation(generation_id="gen_1"), replayed=True),
        )
        order = client.call("order", *ORDER, key=7, max_cost_cents=0, labels={"project": "calendar"})
        self.assertEqual(("gen_1", True, "7"), (order.generation_id, order.replayed, order.key))
        request = v1.CreateGenerationRequest(
            model_id="studio/haiku", inputs_json='{"prompt": "rain"}', idempotency_key="7", max_cost_cents=0, labels={"project": "calendar"}
        )
        self.assertEqual([request] * 5, script.requests)
        self.assertEqual([0.5, 60, 2, 4], client.waits())

    def test_order_sends_its_expire_time(self) -> None:
        placed = v1.CreateGenerationResponse(generation=v1.Generation(generation_id="gen_1"))
        script, client = self.play(lambda _: placed, lambda _: placed)
        expire = datetime(2100, 1, 1, tzinfo=timezone.utc)
        client.call("order", *ORDER, key="key-1", expire=expire)
        client.call("order", *ORDER, key="key-2", expire=timedelta(minutes=10))
        first, second = (one.expire_time.ToDatetime(timezone.utc) for one in script.requests)
        self.assertEqual(expire, first)
        left = second - datetime.now(timezone.utc)
        self.assertTrue(timedelta(minutes=9) < left <= timedelta(minutes=10), left)

    def test_order_rejects_an_expire_time_that_is_not_a_point_in_time(self) -> None:
        script, client = self.play()
        with self.assertRaisesRegex(ValueError, r"datetime\.now\(timezone\.utc\) \+ timedelta\(minutes=5\), or a timedelta"):
            client.call("order", *ORDER, key="key-1", expire=datetime(2100, 1, 1))
        for expire in (5, 5.0, "10m"):
            with self.assertRaisesRegex(TypeError, f"expire must be a datetime with a time zone or a timedelta, not {type(expire).__name__}"):
                client.call("order", *ORDER, key="key-1", expire=expire)
        self.assertEqual([], script.requests)

    def test_order_stops_if_a_retry_cannot_help(self) -> None:
        for code, reason, outcome, kind in (
            ("RESOURCE_EXHAUSTED", "BUDGET_EXCEEDED", "not_placed", easel.BudgetExceeded),
            ("UNAVAILABLE", "SUBMISSION_OUTCOME_UNKNOWN", "unknown", easel.OutcomeUnknown),  # without RetryInfo, it is too late for a retry
            ("FAILED_PRECONDITION", "PRICE_ABOVE_LIMIT", "not_placed_by_this_call", easel.PriceAboveLimit),
            ("FAILED_PRECONDITION", "ORDER_EXPIRED", "unknown", easel.OrderExpired),
            ("INTERNAL", "UPSTREAM_REDIRECT_REFUSED", "unknown", easel.ServerFault),
        ):
            with self.subTest(reason):
                script, client = self.play(failing(code, reason, order_outcome=outcome))
                with self.assertRaises(kind) as caught:
                    client.call("order", *ORDER, key="key-1")
                error = caught.exception
                self.assertEqual((reason, outcome, "key-1"), (error.reason, error.order_outcome, error.key))
                self.assertEqual((code, None, False), (error.code.name, error.retry_after, error.is_retryable))
                self.assertEqual(1, len(script.requests))

    def test_order_passes_a_new_key_to_on_key_before_sending(self) -> None:
        script, client = self.play(failing("NOT_FOUND"))
        made: list[str] = []

        def written(key: str) -> None:
            self.assertEqual([], script.requests)
            made.append(key)

        client.hooks = {"on_key": written}
        with self.assertRaises(easel.NotFound) as caught:
            client.call("order", *ORDER)
        self.assertEqual([caught.exception.key], made)
        self.assertEqual(made, [one.idempotency_key for one in script.requests])
        client.hooks = {}
        with self.assertLogs("easel_grpc", "INFO") as logged, self.assertRaises(easel.NotFound) as caught:
            client.call("order", *ORDER)
        self.assertIn(caught.exception.key, logged.output[0])

    def test_order_rejects_an_empty_key(self) -> None:
        script, client = self.play()
        for key in ("", None):  # an ORM may use None as the ID of a row that is not stored yet
            for name in ("order", "run"):
                with self.subTest(name, key=key), self.assertRaisesRegex(ValueError, "the key must not be empty"):
                    client.call(name, *ORDER, key=key)
        self.assertEqual([], script.requests)

    def test_order_is_not_sent_if_on_key_fails(self) -> None:
        script, client = self.play()
        client.hooks = {"on_key": mock.Mock(side_effect=OSError("the disk is full"))}
        with self.assertRaisesRegex(OSError, "the disk is full"):
            client.call("order", *ORDER)
        self.assertEqual([], script.requests)

    def test_order_outcome_covers_all_attempts(self) -> None:
        lost, refused = failing("UNAVAILABLE"), ("RESOURCE_EXHAUSTED", "BUDGET_EXCEEDED")
        unsent = failing("UNAVAILABLE", "UPSTREAM_UNAVAILABLE", order_outcome="not_placed_by_this_call")
        for answers, outcome, known in (
            ([lost], "not_placed_by_this_call", "unknown"),  # the first attempt may have placed the order, even though the second was rejected
            ([lost, unsent], "not_placed_by_this_call", "unknown"),
            ([unsent], "not_placed_by_this_call", "not_placed_by_this_call"),
            ([lost], "not_placed", "not_placed"),  # "not_placed" proves that no attempt has placed the order
        ):
            with self.subTest(outcome, known=known):
                _, client = self.play(*answers, failing(*refused, order_outcome=outcome))
                with self.assertRaises(easel.BudgetExceeded) as caught:
                    client.call("order", *ORDER, key="key-1")
                self.assertEqual((known, "key-1"), (caught.exception.order_outcome, caught.exception.key))

    def test_order_in_flight_at_the_deadline_may_exist(self) -> None:
        _, client = self.play(failing("UNAVAILABLE", "UPSTREAM_UNAVAILABLE", order_outcome="not_placed"), failing("DEADLINE_EXCEEDED"))
        with self.assertRaises(easel.Timeout) as caught:
            client.call("order", *ORDER, key="key-1", timeout=1)
        error = caught.exception
        self.assertEqual(("unknown", "UPSTREAM_UNAVAILABLE", "key-1", False), (error.order_outcome, error.reason, error.key, error.is_retryable))

    def test_order_ignores_negative_delays_and_rejects_delays_above_an_hour(self) -> None:
        for delay in (3601, 1 << 40, (1 << 63) - 1):
            script, client = self.play(failing("ABORTED", "SUBMISSION_IN_PROGRESS", delay=delay))
            with self.assertRaises(easel.Unavailable) as caught:
                client.call("order", *ORDER, key="key-1")
            assert caught.exception.retry_after
            self.assertEqual((True, 1, []), (caught.exception.retry_after > timedelta(hours=1), len(script.requests), client.waits()))
        for delay in (0, -5):
            _, client = self.play(failing("UNAVAILABLE", "SUBMISSION_OUTCOME_UNKNOWN", delay=delay))
            with self.assertRaises(easel.OutcomeUnknown) as outcome:
                client.call("order", *ORDER, key="key-1")
            self.assertEqual((None, False), (outcome.exception.retry_after, outcome.exception.is_retryable))

    def test_unhealthy_server_receives_no_calls(self) -> None:
        script, client = self.play(serving=False)
        with self.assertRaises(easel.Unavailable):
            client.call("get", "gen_1")
        self.assertEqual([], script.requests)

    def test_read_has_5_attempts_or_10_if_the_server_requests_retries(self) -> None:
        for name, args in (("get", ("gen_1",)), ("list", ()), ("quote", ORDER)):
            for delay, times in ((None, 5), (1, 10)):
                with self.subTest(name, delay=delay):
                    script, client = self.play(failing("UNAVAILABLE", delay=delay))
                    with self.assertRaises(easel.Unavailable) as caught:
                        client.call(name, *args)
                    self.assertEqual((times, times - 1), (len(script.requests), len(client.waits())))
        self.assertEqual((True, None), (caught.exception.is_retryable, caught.exception.order_outcome))

    def test_close_ends_an_order_with_an_error_that_has_the_key(self) -> None:
        answer = v1.CreateGenerationResponse(generation=v1.Generation(generation_id="gen_1"))
        for name, answers, named, told in (
            ("order", [self.waiting], {"key": "key-1"}, ("key-1", "", "unknown")),
            ("order", [failing("UNAVAILABLE", delay=800)], {"key": "key-1"}, ("key-1", "", "unknown")),
            ("run", [lambda _: answer, sending(STAY)], {"key": "key-1"}, ("key-1", "gen_1", None)),
            ("download", [sending(STAY)], {"to": io.BytesIO()}, ("", "gen_1", None)),
        ):
            with self.subTest(name, told=told):
                script, client = self.play(*answers)
                error = client.close_under(name, *(ORDER if "key" in named else ["gen_1"]), calls=len(answers), **named)
                text = "the client is closed" + (" (idempotency key key-1)" if error.key else "")
                self.assertEqual((text, told), (str(error), (error.key, error.generation_id, error.order_outcome)))
                self.assertEqual((len(answers), False), (len(script.requests), error.is_retryable))

    @staticmethod
    def waiting(_: Any) -> v1.CreateGenerationResponse:
        threading.Event().wait(1)
        return v1.CreateGenerationResponse()

    def test_closed_client_sends_no_calls(self) -> None:
        script, client = self.play()
        for name, args in (("order", ORDER), ("get", ("gen_1",)), ("watch", ("gen_1",)), ("download", ("gen_1", io.BytesIO()))):
            with self.subTest(name), self.assertRaisesRegex(easel.Error, "the client is closed"):
                client.call_closed(name, *args)
        self.assertEqual([], script.requests)

    def test_client_warns_about_a_call_that_fails_for_five_seconds(self) -> None:
        answer = v1.CreateGenerationResponse(generation=v1.Generation(generation_id="gen_1"))
        for code, reason in (("UNAVAILABLE", ""), ("UNAVAILABLE", "LEDGER_UNAVAILABLE"), ("ABORTED", "SUBMISSION_IN_PROGRESS")):
            _, client = self.play(*[failing(code, reason)] * 4, lambda _: answer)
            retries: list[Any] = []
            client.hooks = {"on_retry": lambda error, delay: retries.append((error.code.name, delay.total_seconds()))}
            with self.subTest(code, reason=reason), self.assertLogs("easel_grpc", "INFO") as logged:
                client.call("order", *ORDER, key="key-1")
            self.assertEqual(["WARNING", "INFO"], [one.levelname for one in logged.records])
            self.assertRegex(logged.output[0], f"call still failing: method=CreateGeneration address={client.addr} failing_for=3.5s retry_in=4.0s error={reason or code}")
            self.assertRegex(logged.output[1], "call recovered: method=CreateGeneration after=7.5s")
            self.assertEqual([(code, 0.5), (code, 1), (code, 2), (code, 4)], retries)

    def test_client_warns_once_a_minute_and_not_about_short_failures(self) -> None:
        _, client = self.play(*[failing("UNAVAILABLE")] * 3, sending())
        with self.assertNoLogs("easel_grpc", "INFO"):
            client.call("watch", "gen_1")
        _, client = self.play(failing("UNAVAILABLE"))
        with self.assertRaises(easel.Timeout), self.assertLogs("easel_grpc", "INFO") as logged:
            client.call("watch", "gen_1", timeout=170)
        self.assertEqual(["WARNING"] * 3, [one.levelname for one in logged.records])

    def test_calls_end_at_their_default_limits(self) -> None:
        for name, args, named, times in (
            ("account", (), {}, 5),
            ("account", (), {"attempts": 2}, 2),
            ("watch", ("gen_1",), {}, 100),
            ("watch", ("gen_1",), {"attempts": 3}, 3),
            ("download", ("gen_1", io.BytesIO()), {"attempts": 3}, 3),
            ("order", ORDER, {"key": "key-1", "attempts": 3}, 3),
        ):
            with self.subTest(name, **named):
                script, client = self.play(failing("UNAVAILABLE"))
                with self.assertRaises(easel.Unavailable):
                    client.call(name, *args, **named)
                self.assertEqual(times, len(script.requests))
        _, client = self.play(failing("ABORTED", "SUBMISSION_IN_PROGRESS", delay=40))
        with self.assertRaisesRegex(easel.Timeout, "timed out after 880.0 s, .* the timeout of 900 s"):
            client.call("order", *ORDER, key="key-1")

    def test_unknown_option_is_an_error_and_sends_nothing(self) -> None:
        script, client = self.play()
        for name, args in (("order", ORDER), ("run", ORDER), ("get", ("gen_1",)), ("list", ()), ("watch", ("gen_1",)), ("account", ())):
            with self.subTest(name), self.assertRaisesRegex(TypeError, "max_cost_cent$|max_cost_cent'"):
                client.call(name, *args, max_cost_cent=50)
        self.assertEqual([], script.requests)

    def test_lists_read_all_pages(self) -> None:
        states = [State.FAILED, State.REFUNDED]
        for name, named, pages in (
            (
                "list", {"model": "studio/haiku", "states": states, "labels": {"a": "b"}},
                [v1.ListGenerationsResponse(generations=[v1.Generation(etag="1"), v1.Generation(etag="2")], next_page_token="next"), v1.ListGenerationsResponse(generations=[v1.Generation(etag="3")])],
            ),
            (
                "usage", {"start": datetime(2026, 1, 1, tzinfo=timezone.utc), "by": [easel.UsageDimension.LABEL], "label": "a"},
                [v1.ListUsageResponse(rows=[v1.UsageRow(owner="1"), v1.UsageRow(owner="2")], next_page_token="next"), v1.ListUsageResponse(rows=[v1.UsageRow(owner="3")])],
            ),
        ):  # fmt: skip
            with self.subTest(name):
                script, client = self.play(lambda _: pages[0], failing("UNAVAILABLE"), lambda _: pages[1])
                found = client.call(name, **named)
                self.assertEqual(["1", "2", "3"], [one.etag if name == "list" else one.owner for one in found])
                self.assertEqual(["", "next", "next"], [request.page_token for request in script.requests])
        self.assertEqual((1767225600, ["USAGE_DIMENSION_LABEL"]), (script.requests[0].start_time.seconds, [v1.UsageDimension.Name(one) for one in script.requests[0].group_by]))

    def test_watch_yields_each_state_once_over_all_streams(self) -> None:
        closing = v1.WatchGenerationResponse(closing=v1.StreamClosing(retry_delay={"seconds": 20}))  # type: ignore[arg-type]
        script, client = self.play(
            sending(update("e1", State.QUEUED), closing, Failure("UNAVAILABLE", "SERVER_DRAINING")),
            lambda request: client.silence(request),
            sending(v1.WatchGenerationResponse(heartbeat=v1.Heartbeat()), update("e2", State.SUCCEEDED)),
        )
        states = [one.state for one in client.call("watch", "gen_1")]
        self.assertEqual([State.QUEUED, State.SUCCEEDED], states)
        self.assertEqual(["", "e1", "e1"], [request.known_etag for request in script.requests])
        self.assertEqual([20, 0.5], client.waits())

    def test_watch_many_yields_each_state_once_over_all_streams(self) -> None:
        closing = v1.WatchGenerationsResponse(closing=v1.StreamClosing(retry_delay={"seconds": 20}))  # type: ignore[arg-type]
        script, client = self.play(
            sending(one_of_many("a", "a1"), closing, Failure("UNAVAILABLE", "STREAM_MAX_AGE", delay=30)),
            lambda request: client.silence(request),
            sending(one_of_many("b", "b2"), one_of_many("a", "a2", State.DELETED), Failure("UNAVAILABLE")),
            sending(v1.WatchGenerationsResponse(caught_up=v1.CaughtUp()), one_of_many("b", "b3", State.SUCCEEDED)),
        )
        request = v1.WatchGenerationsRequest(
            generation_ids=["a", "b"], until=v1.WatchUntil.WATCH_UNTIL_SETTLED, filter=v1.GenerationFilter(model_id="studio/haiku")
        )
        request.heartbeat_interval.FromSeconds(20)
        seen = {"b": "b1"}
        found = client.call("watch_many", ["a", "b"], until=easel.WatchUntil.SETTLED, known_etags=seen, model="studio/haiku", heartbeat=20)
        self.assertEqual(["a1", "b2", "a2", "b3"], [one.etag for one in found])
        self.assertEqual([30, 0.5, 0.5], client.waits())
        self.assertEqual({"b": "b1"}, seen)
        known = [dict(one.known_etags) for one in script.requests]
        self.assertEqual([{"b": "b1"}, {"a": "a1", "b": "b1"}, {"a": "a1", "b": "b1"}, {"a": "a2", "b": "b2"}], known)
        for one in script.requests:
            one.ClearField("known_etags")
        self.assertEqual([request] * 4, script.requests)

    def test_events_continue_after_the_last_message(self) -> None:
        failed = v1.Event(event_id="a", type="easel.generation.failed", owner="studio", generation=generation("gen_1", "e1", State.FAILED))
        budget = v1.Event(event_id="b", budget=v1.Budget(limit_cents=100))
        script, client = self.play(
            sending(v1.WatchEventsResponse(event=failed, resume_token="t1"), v1.WatchEventsResponse(heartbeat=v1.Heartbeat(), resume_token="t2"), Failure("UNAVAILABLE")),
            sending(v1.WatchEventsResponse(caught_up=v1.CaughtUp(), resume_token="t3")),
            sending(v1.WatchEventsResponse(event=budget, resume_token="t4"), STAY),
        )
        start = datetime(2026, 11, 30, tzinfo=timezone.utc)
        one, two = client.call("events", "t0", start=start, types=["easel.generation.failed"], owner="studio", first=2)
        self.assertEqual(("a", "gen_1", None, "t1"), (one.event_id, one.render.generation_id, one.budget, one.resume_token))
        self.assertEqual(("b", None, 100, "t4"), (two.event_id, two.render, two.budget.limit_cents, two.resume_token))
        self.assertEqual(["t0", "t2", "t3"], [request.resume_token for request in script.requests])
        first = script.requests[0]
        self.assertEqual((start, ["easel.generation.failed"], "studio"), (first.start_time.ToDatetime(timezone.utc), list(first.filter.types), first.filter.owner))

    def test_watch_of_all_forgets_what_was_deleted(self) -> None:
        script, client = self.play(
            sending(one_of_many("a", "a1"), one_of_many("b", "b1")),
            sending(one_of_many("a", "a2", State.DELETED)),
            sending(),
            sending(one_of_many("b", "b2"), STAY),
        )
        states = client.call("watch_many", first=4)
        self.assertEqual(["a1", "b1", "a2", "b2"], [one.etag for one in states])
        self.assertEqual([{}, {"a": "a1", "b": "b1"}, {"b": "b1"}, {"b": "b1"}], [dict(one.known_etags) for one in script.requests])
        self.assertEqual([0.5, 0.5, 1], client.waits())
        self.assertEqual([10] * 4, [one.heartbeat_interval.seconds for one in script.requests])

    def test_watch_many_rejects_a_string(self) -> None:
        _, client = self.play()
        with self.assertRaisesRegex(TypeError, "for one ID, use watch"):
            client.call("watch_many", "gen_1")

    def test_watch_of_all_sends_the_1000_latest_etags(self) -> None:
        many = [one_of_many(f"gen_{n}", f"e{n}") for n in range(1001)]
        script, client = self.play(
            sending(*many, one_of_many("gen_0", "newer"), Failure("UNAVAILABLE")),
            sending(one_of_many("gen_1", "newer"), STAY),
        )
        seen = {f"old_{n}": "old" for n in range(1001)}
        self.assertEqual(1003, len(client.call("watch_many", known_etags=seen, first=1003)))
        self.assertEqual(1000, len(script.requests[0].known_etags))
        self.assertEqual({"gen_0": "newer", **{f"gen_{n}": f"e{n}" for n in range(2, 1001)}}, dict(script.requests[1].known_etags))

    def test_watch_many_repeats_none_of_the_10_000_latest_states(self) -> None:
        watch = GenerationsProgress(v1.WatchGenerationsRequest(known_etags={"old": "old"}), attempts.Attempts(hooks(), attempts.STREAM, "WatchGenerations", {}))
        old, *many = [one_of_many("old", "old"), *(one_of_many(f"gen_{n}", f"e{n}") for n in range(10_001))]
        for message, new in ((old, False), *((one, True) for one in many), *((one, False) for one in many[1:]), (many[0], True)):
            self.assertEqual(new, watch.take(message) is not None, message)

    def test_watch_many_sends_no_etags_of_finished_renders(self) -> None:
        ends = (State.FAILED, State.SUCCEEDED, State.REFUNDED, State.DELETED)
        finished = [one_of_many(state.name, "e1", state) for state in ends]
        known = {state.name: "e1" for state in ends}
        for named, sent in (([], {"FAILED": "e1"}), ([*known, "other"], known)):
            with self.subTest(named):
                script, client = self.play(sending(*finished, Failure("UNAVAILABLE")), sending(one_of_many("other", "e1"), STAY))
                client.call("watch_many", named, first=5)
                self.assertEqual([{}, sent], [dict(one.known_etags) for one in script.requests])

    def test_repeated_state_does_not_reset_the_back_off(self) -> None:
        for name, args, message, newer, found in (
            ("watch", ("gen_1",), update("e1", State.QUEUED), update("e2", State.RUNNING), ["e1", "e1", "e1", "e2"]),
            ("watch_many", (), one_of_many("a", "e1"), one_of_many("a", "e2"), ["e1", "e2"]),
        ):
            with self.subTest(name):
                _, client = self.play(*[sending(message, Failure("UNAVAILABLE"))] * 3, sending(newer, STAY))
                self.assertEqual(found, [one.etag for one in client.call(name, *args, first=len(found))])
                self.assertEqual([0.5, 1, 2], client.waits())

    def test_rejected_heartbeat_interval_ends_the_watch(self) -> None:
        def refuse(_: Any) -> Any:
            client.pass_time(2)
            threading.Event().wait(0.1)  # long enough for the client to check its clock
            raise Failure("INVALID_ARGUMENT")

        for heartbeat in (0.5, 0, -1):
            script, client = self.play(refuse, failing("NOT_FOUND"))
            with self.assertRaises(easel.InvalidRequest):
                client.call("watch", "gen_1", heartbeat=heartbeat)
            self.assertEqual([heartbeat], [one.heartbeat_interval.ToTimedelta().total_seconds() for one in script.requests])

    def test_watch_retries_all_but_permanent_errors(self) -> None:
        final = {"NOT_FOUND", "UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED"}
        for name, args, message in WATCHES:
            for code in grpc.StatusCode:
                if code == grpc.StatusCode.OK:
                    continue
                with self.subTest(f"{name} {code.name}"):
                    script, client = self.play(failing(code.name), sending(message, STAY))
                    if code.name in final:
                        with self.assertRaises(easel.Error) as caught:
                            client.call(name, *args)
                        self.assertEqual(code, caught.exception.code)
                    else:
                        client.call(name, *args, first=1)
                    self.assertEqual(1 if code.name in final else 2, len(script.requests))

    def test_watch_ends_its_stream_when_the_caller_leaves_the_loop(self) -> None:
        for name, args, message in WATCHES:
            with self.subTest(name):
                script, client = self.play(sending(message, STAY))
                self.assertEqual(1, len(client.call(name, *args, first=1)))
                self.assertEqual(1, len(script.requests))

    def test_watch_backs_off_until_there_is_progress(self) -> None:
        def long(_: Any) -> list[Any]:
            client.pass_time(11)
            return [Failure("UNAVAILABLE")]

        heartbeat = v1.WatchGenerationResponse(heartbeat=v1.Heartbeat())
        _, client = self.play(
            *(failing("UNAVAILABLE"), sending(heartbeat, Failure("UNAVAILABLE"))),
            *(sending(update("e1", State.QUEUED), Failure("UNAVAILABLE")), failing("UNAVAILABLE")),
            *(long, *[failing("UNAVAILABLE", delay=3)] * 6, sending()),
        )
        client.call("watch", "gen_1")
        self.assertEqual([0.5, 1, 0.5, 1, 0.5, 3, 3, 4, 8, 10, 10], client.waits())

    def test_watch_fails_if_the_client_is_closed(self) -> None:
        for name, args, message in WATCHES:
            for secret in ("", "secret"):
                with self.subTest(f"{name} {secret}"):
                    script, client = self.play(sending(message, STAY))
                    client.close_within(name, *args, secret=secret)
                    self.assertEqual(1, len(script.requests))

    def test_timeout_of_a_watch_contains_the_last_heartbeat(self) -> None:
        heartbeat = v1.Heartbeat(upstream_condition=v1.UpstreamCondition.UPSTREAM_CONDITION_UNREACHABLE, last_error="refused")
        for code, answer in (("UNAVAILABLE", failing("UNAVAILABLE")), ("UNAVAILABLE", sending(v1.WatchGenerationsResponse(heartbeat=heartbeat)))):
            with self.subTest(code):
                script, client = self.play(answer)
                heard: list[easel.Heartbeat] = []
                client.hooks = {"on_heartbeat": heard.append}
                with self.assertRaises(easel.Timeout) as caught:
                    client.call("watch_many", timeout=5)
                self.assertEqual(code, getattr(caught.exception.__cause__, "code").name)
                self.assertEqual([0.5, 1, 2], client.waits())  # the remaining time is too short for another delay of 4 s
                self.assertEqual(4, len(script.requests))
                self.assertEqual(heard[-1:], [caught.exception.heartbeat] if caught.exception.heartbeat else [])
        self.assertIn("last heartbeat: UNREACHABLE refused", str(caught.exception))
        self.assertIn("timed out after 3.5 s, because the next attempt would exceed the timeout of 5 s", str(caught.exception))

    def test_order_without_time_for_the_requested_delay_fails_with_the_last_error(self) -> None:
        _, client = self.play(failing("UNAVAILABLE", "SUBMISSION_OUTCOME_UNKNOWN", delay=600))
        with self.assertRaises(easel.Timeout) as caught:
            client.call("order", *ORDER, key="key-1", timeout=20)
        error = caught.exception
        self.assertEqual(("SUBMISSION_OUTCOME_UNKNOWN", "unknown", timedelta(minutes=10)), (error.reason, error.order_outcome, error.retry_after))
        self.assertEqual((False, []), (error.is_retryable, client.waits()))

    def test_stopped_watch_ends_without_an_error(self) -> None:
        for name, args, message in WATCHES:
            with self.subTest(name):
                script, client = self.play(sending(message, STAY))
                self.assertEqual(1, len(client.stop(name, *args)))
                self.assertEqual(1, len(script.requests))

    def test_watch_ends_with_its_with_block(self) -> None:
        for name, args, message in WATCHES:
            with self.subTest(name):
                script, client = self.play(sending(message, STAY))
                client.leave_block(name, *args)
                self.assertEqual(1, len(script.requests))

    def test_watch_yields_the_typical_remaining_time(self) -> None:
        heartbeat = v1.Heartbeat(typical_remaining={"seconds": 3})  # type: ignore[arg-type]
        _, client = self.play(sending(v1.WatchGenerationResponse(heartbeat=heartbeat), update("e1", State.RUNNING)))
        self.assertEqual([timedelta(seconds=3)], [one.typical_remaining for one in client.call("watch", "gen_1")])

    def test_run_raises_an_error_for_a_failed_render(self) -> None:
        _, client = self.play(
            lambda _: v1.CreateGenerationResponse(generation=v1.Generation(generation_id="gen_1")),
            lambda _: [update("e1", State.REFUNDED)],
        )
        with self.assertRaises(easel.RenderFailed) as caught:
            client.call("run", *ORDER, key="key-1")
        self.assertEqual((State.REFUNDED, "key-1"), (caught.exception.render.state, caught.exception.key))
        self.assertEqual("gen_1", caught.exception.generation_id)

    def test_errors_of_run_contain_the_key_and_the_render(self) -> None:
        answer = v1.CreateGenerationResponse(generation=v1.Generation(generation_id="gen_1"))
        for watch, timeout, kind in ((failing("UNAUTHENTICATED"), None, easel.Unauthenticated), (failing("UNAVAILABLE"), 3, easel.Timeout)):
            made: list[str] = []
            _, client = self.play(lambda _: answer, watch)
            client.hooks = {"on_key": made.append}
            with self.subTest(kind.__name__), self.assertRaises(kind) as caught:
                client.call("run", *ORDER, timeout=timeout)
            self.assertEqual((made, "gen_1"), ([caught.exception.key], caught.exception.generation_id))

    def test_download_resumes_at_the_next_byte(self) -> None:
        script, client = self.play(
            failing("FAILED_PRECONDITION", "CONTENT_NOT_READY", delay=1),
            pieces(1500, end=Failure("UNAVAILABLE")),
            pieces(2500, end=Failure("UNAVAILABLE", "CONTENT_INTERRUPTED")),
            pieces(len(WHOLE)),
        )
        file = io.BytesIO()
        client.call("download", "gen_1", file)
        self.assertEqual(WHOLE, file.getvalue())
        asked = [(request.read_offset, request.etag) for request in script.requests]
        self.assertEqual([(0, ""), (0, ""), (1500, "bytes-1"), (2500, "bytes-1")], asked)

    def test_download_keeps_earlier_content_of_an_open_file(self) -> None:
        def bare(chunk: v1.ContentChunk) -> None:
            chunk.info.etag = ""

        before = b"an archive of ten years"
        with TemporaryDirectory() as directory:
            for mode, at, want in (("ab", 0, before + WHOLE), ("r+b", len(before), before + WHOLE), ("r+b", 0, None)):
                path = Path(directory, "archive")
                path.write_bytes(before if want else before * 1000)
                _, client = self.play(pieces(1500, bare, end=Failure("UNAVAILABLE")), pieces(len(WHOLE), bare))
                with self.subTest(mode, at=at), path.open(mode) as file:
                    file.seek(at)
                    if want:
                        client.call("download", "gen_1", file)
                    else:  # a restart would delete the earlier content that follows the downloaded bytes
                        with self.assertRaisesRegex(easel.Damaged, "cannot resume"):
                            client.call("download", "gen_1", file)
                found = path.read_bytes()
                self.assertEqual(want or found[:1500] + (before * 1000)[1500:], found)

    def test_download_without_an_etag_restarts(self) -> None:
        def bare(chunk: v1.ContentChunk) -> None:
            chunk.info.etag = ""

        with TemporaryDirectory() as directory:
            for to in (io.BytesIO(), Path(directory, "file")):
                script, client = self.play(pieces(1500, bare, end=Failure("UNAVAILABLE")), pieces(len(WHOLE), bare))
                client.call("download", "gen_1", to)
                self.assertEqual(WHOLE, to.read_bytes() if isinstance(to, Path) else to.getvalue())
                self.assertEqual([0, 0], [request.read_offset for request in script.requests])
        script, client = self.play(pieces(1500, bare, end=Failure("UNAVAILABLE")))
        with self.assertRaisesRegex(easel.Damaged, "cannot resume"):
            client.call("download", "gen_1", Pipe())
        self.assertEqual(1, len(script.requests))

    def test_download_to_a_full_disk_leaves_no_file(self) -> None:
        _, client = self.play(pieces(len(WHOLE)))
        full = mock.Mock(write=mock.Mock(side_effect=OSError("full")), close=mock.Mock(side_effect=OSError("full")))

        def opened(part: Path, _: str) -> mock.Mock:
            part.touch()
            return full

        with TemporaryDirectory() as directory, mock.patch.object(Path, "open", opened):
            with self.assertRaisesRegex(OSError, "full"):
                client.call("download", "gen_1", Path(directory, "file"))
            self.assertEqual([], list(Path(directory).iterdir()))

    def test_download_does_not_follow_links(self) -> None:
        _, client = self.play(pieces(len(WHOLE)))
        with TemporaryDirectory() as directory:
            file, other = Path(directory, "file"), Path(directory, "other")
            other.write_bytes(b"mine")
            Path(directory, "file.part").symlink_to(other)
            client.call("download", "gen_1", file)
            self.assertEqual((WHOLE, b"mine"), (file.read_bytes(), other.read_bytes()))

    def test_concurrent_downloads_leave_one_complete_file(self) -> None:
        script, client = self.play(pieces(len(WHOLE)))
        with TemporaryDirectory() as directory:
            Path(directory, "file").symlink_to(Path(directory, "nowhere"))  # the link is replaced, not followed
            client.download_twice("gen_1", Path(directory, "file"))
            self.assertEqual(2, len(script.requests))
            self.assertEqual((WHOLE, False), (Path(directory, "file").read_bytes(), Path(directory, "file").is_symlink()))
            self.assertEqual(1, len(list(Path(directory).iterdir())))

    def test_download_rejects_damaged_bytes(self) -> None:
        def spoil(field: str) -> Callable[[v1.ContentChunk], None]:
            return lambda chunk: setattr(chunk, field, getattr(chunk, field) ^ 1)

        def other(chunk: v1.ContentChunk) -> None:
            chunk.summary.sha256 = "0"

        for answer in (sending(), pieces(len(WHOLE), spoil("crc32c")), pieces(len(WHOLE), spoil("offset")), pieces(4990), pieces(len(WHOLE), other)):
            script, client = self.play(answer)
            with TemporaryDirectory() as directory, self.subTest():
                with self.assertRaises(easel.Damaged):
                    client.call("download", "gen_1", Path(directory, "file"))
                self.assertEqual([], list(Path(directory).iterdir()))
                self.assertEqual(1, len(script.requests))


class Pipe(io.BytesIO):
    """A file object that is not seekable."""

    def seekable(self) -> bool:
        return False


class Cancelling:
    """A stream that cancels its reader just before the first message arrives."""

    reader: "asyncio.Future[None]"

    async def __aiter__(self) -> AsyncIterator[Any]:
        self.reader.cancel()
        yield update("e1", State.QUEUED)

    def cancel(self) -> None:
        pass


class ThreadsTest(unittest.TestCase):
    def test_client_for_threads_rejects_a_coroutine_function(self) -> None:
        async def written(_: str) -> None: ...

        with easel.Client("localhost:1", on_key=written) as client, self.assertRaisesRegex(TypeError, "on_key"):
            client.order(*ORDER, timeout=0)


class TasksTest(ClientTest):
    kind = Tasks

    def test_cancelled_task_ends_its_watch_when_a_message_arrives(self) -> None:
        stream = Cancelling()
        progress = GenerationProgress(v1.WatchGenerationRequest(), attempts.Attempts(hooks(), attempts.STREAM, "WatchGeneration", {}))

        async def go() -> None:
            async for _ in aio._follow(lambda *_, **__: stream, progress, asyncio.Event()):
                pass

        async def cancelled() -> bool:
            stream.reader = asyncio.ensure_future(go())
            await asyncio.wait((stream.reader,))
            return stream.reader.cancelled()

        self.assertTrue(asyncio.run(cancelled()))


class ErrorTest(unittest.TestCase):
    def fail(self, code: str = "UNKNOWN", reason: str = "", delay: int | None = None, **metadata: str) -> easel.Error:  # type: ignore[override]
        trailer = grpc.aio.Metadata(("grpc-status-details-bin", status(reason, delay, **metadata).SerializeToString()))
        return errors.of(grpc.aio.AioRpcError(getattr(grpc.StatusCode, code), grpc.aio.Metadata(), trailer, "scripted"), "easel.example:1")

    def test_each_reason_has_its_class(self) -> None:
        for reason, row in reasons.REASONS.items():
            for delay in (None, 1):
                error = self.fail("UNKNOWN", reason, delay)
                self.assertEqual((row["class"], reason), (type(error).__name__, error.reason))
                self.assertEqual(row["again"] == "yes" or (row["again"] == "if_told" and delay == 1), error.is_retryable, reason)
        for name in v1.ErrorReason.keys():
            self.assertTrue(name in reasons.REASONS or name == "ERROR_REASON_UNSPECIFIED", name)

    def test_code_determines_the_class_of_an_unknown_reason(self) -> None:
        for code in grpc.StatusCode:
            if code != grpc.StatusCode.OK:
                for reason in ("", "A_NEWER_ONE"):
                    self.assertEqual(reasons.CODES[code.name]["class"], type(self.fail(code.name, reason)).__name__)
        self.assertTrue(self.fail("NOT_FOUND", delay=1).is_retryable)
        self.assertEqual((timedelta(seconds=1), "A_NEWER_ONE"), (self.fail("NOT_FOUND", "A_NEWER_ONE", 1).retry_after, self.fail(reason="A_NEWER_ONE").reason))

    def test_unreadable_details_are_ignored(self) -> None:
        for text in (b"\xff", status_pb2.Status(details=[{"type_url": "/google.rpc.ErrorInfo", "value": b"\xff"}]).SerializeToString()):
            trailer = grpc.aio.Metadata(("grpc-status-details-bin", text))
            error = errors.of(grpc.aio.AioRpcError(grpc.StatusCode.NOT_FOUND, grpc.aio.Metadata(), trailer, "scripted"), "easel.example:1")
            self.assertEqual((easel.NotFound, ()), (type(error), error.details))

    def test_fields_have_types(self) -> None:
        error = self.fail(reason="BUDGET_EXCEEDED", window="day", price_cents="7", remaining_cents="5", reset_time="2026-11-27T00:00:00Z", label_name="project", label_value="apollo")
        assert isinstance(error, easel.BudgetExceeded)
        self.assertEqual((7, 5, "day"), (error.price_cents, error.remaining_cents, error.window))
        self.assertEqual(("project", "apollo"), (error.label_name, error.label_value))
        self.assertEqual(datetime(2026, 11, 27, tzinfo=timezone.utc), error.reset_time)
        error = self.fail(reason="BUDGET_EXCEEDED", price_cents="many", reset_time="soon")
        assert isinstance(error, easel.BudgetExceeded)
        self.assertEqual((None, None, None), (error.price_cents, error.remaining_cents, error.reset_time))
        self.assertEqual(("", ""), (error.label_name, error.label_value))
        field = details_pb2.BadRequest(field_violations=[{"field": "model_id", "description": "unknown"}])
        self.assertEqual((("model_id", "unknown"),), easel.Error("it", details=[field]).field_violations)


class OldServer(socketserver.StreamRequestHandler):
    """A server that speaks only HTTP/1.1."""

    def handle(self) -> None:
        self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


class ConnectionTest(unittest.TestCase):
    def test_address_determines_the_target_and_the_encryption(self) -> None:
        for address, target, encrypted in (
            ("localhost:50051", "localhost:50051", False),
            ("127.0.0.2:1", "127.0.0.2:1", False),
            ("[::1]:50051", "[::1]:50051", False),
            ("easel.example:50051", "easel.example:50051", True),
            ("10.0.0.1:50051", "10.0.0.1:50051", True),
            ("easel.localhost:50051", "easel.localhost:50051", True),  # a resolver may return an address that is not loopback
            ("https://easel.example", "easel.example:443", True),
            ("https://localhost:50051/", "localhost:50051", True),
            ("http://localhost", "localhost:80", False),
            (" HTTP://127.0.0.1:1\n", "127.0.0.1:1", False),
            ("HTTPS://easel.example", "easel.example:443", True),
            ("easel_app:50051/", "easel_app:50051", True),
        ):
            with self.subTest(address):
                made = connection(address, "secret", None, False, ())
                self.assertEqual((target, encrypted), (made.target, made.credentials is not None))
                self.assertEqual(("authorization", "Bearer secret"), made.key and made.key.header())
                near = target.startswith(("localhost:", "127.", "[::1]"))
                self.assertEqual(near, ("grpc.enable_http_proxy", 0) in made.options)

    def test_invalid_address_is_rejected(self) -> None:
        wrong = ("", "easel", ":1", "easel:", "easel:x", "easel:70000", "ftp://easel:1", "http://", "https://easel/path", "dns:///easel:1", "u:secret@easel:1", "a b:1")
        for address in wrong:
            with self.subTest(address), self.assertRaisesRegex(ValueError, "the address must be host:port") as caught:
                easel.Client(address)
            self.assertNotIn("secret", str(caught.exception))

    def test_error_for_another_protocol_names_a_remedy(self) -> None:
        plain = grpc.server(futures.ThreadPoolExecutor(1))
        self.addCleanup(plain.stop, None)
        port = plain.add_insecure_port("127.0.0.1:0")
        plain.start()
        web = socketserver.TCPServer(("127.0.0.1", 0), OldServer)
        self.addCleanup(web.server_close)
        self.addCleanup(web.shutdown)
        threading.Thread(target=web.serve_forever).start()
        for address, message in (
            (f"https://127.0.0.1:{port}", "server does not speak TLS; use http:// in the address"),
            (f"127.0.0.1:{web.server_address[1]}", "server speaks HTTP/1.1 and not gRPC; use the gRPC address of Easel"),
        ):
            with self.subTest(message), easel.Client(address) as client, self.assertRaises(easel.Unavailable) as caught:
                client.account(attempts=1)
            self.assertEqual("UNAVAILABLE: " + message, str(caught.exception))

    def test_error_names_an_address_that_fails_or_is_silent(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            closed = f"127.0.0.1:{server.getsockname()[1]}"
        silent_server = socket.create_server(("127.0.0.1", 0))  # the system accepts connections to this port, but no program reads from them
        self.addCleanup(silent_server.close)
        silent = f"127.0.0.1:{silent_server.getsockname()[1]}"
        fast = [("grpc.keepalive_time_ms", 1000), ("grpc.keepalive_timeout_ms", 100), ("grpc.http2.ping_timeout_ms", 100)]
        for address, kind, limits, message in (
            (closed, easel.Unavailable, Limits(attempts=1), "^UNAVAILABLE: connection to ADDRESS failed: Connection refused$"),
            (silent, easel.Unavailable, Limits(attempts=1), "^UNAVAILABLE: ADDRESS does not respond$"),
            (silent, easel.Timeout, Limits(timeout=0.2), "the timeout of 0.2 s; last error: ADDRESS does not respond$"),
        ):
            with self.subTest(message), easel.Client(address, options=fast) as client, self.assertRaisesRegex(kind, message.replace("ADDRESS", address)) as caught:
                client.account(**limits)
            self.assertNotIn("_InactiveRpcError", "".join(traceback.format_exception(caught.exception)))

    def test_api_key_is_sent_without_tls_only_if_allowed(self) -> None:
        with self.assertRaisesRegex(ValueError, "would be sent to easel.example without TLS") as caught:
            connection("http://easel.example:80", "secret", None, False, ())
        self.assertNotIn("secret", str(caught.exception))
        self.assertIsNone(connection("http://easel.example:80", "secret", None, True, ()).credentials)
        self.assertIsNone(connection("http://easel.example:80", "", None, False, ()).credentials)
        with self.assertRaisesRegex(ValueError, "another invalid character") as caught:
            connection("localhost:1", "secret\nother", None, False, ())
        self.assertNotIn("secret", str(caught.exception))
        with self.assertRaises(ValueError):
            connection("http://easel.example:80", "", grpc.ssl_channel_credentials(), False, ())

    def test_environment_supplies_missing_arguments(self) -> None:
        with mock.patch.dict("os.environ", {"EASEL_ADDR": "localhost:1", "EASEL_API_KEY": "secret\n"}):
            made = connection(None, None, None, False, ())
        self.assertEqual(("localhost:1", ("authorization", "Bearer secret")), (made.target, made.key and made.key.header()))
        with mock.patch.dict("os.environ", {"EASEL_ADDR": "http://easel.example:80", "EASEL_API_KEY": "secret", "EASEL_ALLOW_PLAINTEXT": "true"}):
            self.assertIsNone(connection(None, None, None, None, ()).credentials)
            with self.assertRaisesRegex(ValueError, "EASEL_ALLOW_PLAINTEXT=true"):
                connection(None, None, None, False, ())
        with mock.patch.dict("os.environ", {"EASEL_ADDR": " ", "EASEL_API_KEY": ""}):
            made = connection(None, None, None, False, ())
        self.assertEqual(("localhost:50051", None), (made.target, made.key))


class CheckoutTest(unittest.TestCase):
    def test_build_without_stubs_names_the_command(self) -> None:
        script = Path(__file__).parent.parent / "setup.py"
        build = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
        self.assertEqual(build.returncode, 1)
        self.assertRegex(build.stderr, r"\A[^\n]*: run make package-python [^\n]*\n\Z")


class ValueTest(unittest.TestCase):
    def test_values_have_every_field_of_the_contract(self) -> None:
        kinds: dict[Any, Any] = {values.Render: v1.Generation}
        for kind in (values.FileResult, values.Quote, values.Budget, values.Account, values.UsageRow, values.Heartbeat, values.Model, values.InputField):
            kinds[kind] = getattr(v1, kind.__name__)
        for kind, message in kinds.items():
            fields = set(kind.__dataclass_fields__) - {"raw", "typical_remaining"}
            self.assertEqual(set(message.DESCRIPTOR.fields_by_name) - {"typical_remaining"}, fields)
            self.assertEqual(kind, type(values.of(kind, message())))

    def test_enumerations_match_the_contract(self) -> None:
        for kind in values.Named.__subclasses__():
            contract = getattr(v1, kind.__name__).DESCRIPTOR.values
            names = {one.number: one.name for one in contract if one.number}
            for one in kind:
                self.assertTrue(names.pop(one.value).endswith("_" + one.name))
            self.assertEqual({}, names)

    def test_enumerations_accept_values_of_a_newer_server(self) -> None:
        newer = v1.Generation.FromString(b"\x18\x63")
        self.assertEqual(("unknown(99)", 99), (str(values.of(easel.Render, newer).state), values.of(easel.Render, newer).state))

    def test_values_have_python_types(self) -> None:
        raw = v1.Generation(labels={"a": "b"}, cost_cents=0, text=v1.TextResult(text="rain"), omitted_fields=["inputs"])
        raw.create_time.FromSeconds(0)
        raw.inputs.update({"size": 2, "tags": ["a"], "deep": {"x": None}})
        render = values.of(easel.Render, raw)
        self.assertEqual((0, "rain", None, {"a": "b"}, ("inputs",)), (render.cost_cents, render.text, render.file, render.labels, render.omitted_fields))
        self.assertEqual((datetime(1970, 1, 1, tzinfo=timezone.utc), None), (render.create_time, render.terminal_time))
        self.assertEqual({"size": 2, "tags": ["a"], "deep": {"x": None}}, render.inputs)
        self.assertIs(raw, render.raw)


if __name__ == "__main__":
    unittest.main()
