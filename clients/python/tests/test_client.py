"""Both clients against a server that answers by a script."""

import asyncio
import contextlib
import hashlib
import io
import threading
import time
import unittest
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent import futures
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import google.rpc.error_details_pb2 as details_pb2  # type: ignore[import-untyped]
import google.rpc.status_pb2 as status_pb2  # type: ignore[import-untyped]
import google_crc32c
import grpc
import grpc.aio

import easel
from easel import aio, errors
from easel.watch import GenerationsWatch, GenerationWatch

Answer = Callable[[Any], Any]
ORDER = easel.CreateGenerationRequest(idempotency_key="key-1")
WHOLE = b"easel" * 1000
STAY = object()  # in place of a message: the stream is quiet until the client leaves it


class Failure(Exception):
    """Is how a call ends."""

    def __init__(self, code: str, reason: str = "", outcome: str = "unknown", delay: int | None = None) -> None:
        self.code = getattr(grpc.StatusCode, code)
        status = status_pb2.Status()
        if reason:
            info = details_pb2.ErrorInfo(domain="easel", reason=reason, metadata={"order_outcome": outcome})
            status.details.add().Pack(info)
        if delay is not None:
            status.details.add().Pack(details_pb2.RetryInfo(retry_delay={"seconds": delay}))
        self.trailer = (("grpc-status-details-bin", status.SerializeToString()),)


class Script(easel.GenerationServiceServicer, easel.AccountServiceServicer):
    """Answers each call by the next answer, and all after the last by the last."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = answers
        self.requests: list[Any] = []

    def next(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
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

    CreateGeneration = next
    WatchGeneration = each
    WatchGenerations = each
    WatchAccount = each
    DownloadGeneration = each


def failing(*args: Any, **named: Any) -> Answer:
    def answer(_: Any) -> Any:
        raise Failure(*args, **named)

    return answer


def sending(*messages: Any) -> Answer:
    return lambda _: messages


def update(etag: str, state: "easel.State.ValueType") -> easel.WatchGenerationResponse:
    return easel.WatchGenerationResponse(update=easel.GenerationUpdate(generation=easel.Generation(etag=etag, state=state)))


def one_of_many(generation_id: str, etag: str, state: "easel.State.ValueType" = easel.STATE_QUEUED) -> easel.WatchGenerationsResponse:
    generation = easel.Generation(generation_id=generation_id, etag=etag, state=state)
    return easel.WatchGenerationsResponse(update=easel.GenerationUpdate(generation=generation))


def account(balance: int, initial: bool = False) -> easel.WatchAccountResponse:
    read = easel.Account(balance_cents=balance)
    read.observe_time.GetCurrentTime()
    read.upstream_fields["now"] = read.observe_time.ToNanoseconds()
    return easel.WatchAccountResponse(update=easel.AccountUpdate(account=read, initial=initial))


# A call of each watch, and an update of it.
WATCHES: tuple[tuple[str, tuple[Any, ...], Any], ...] = (
    ("watch", ("gen_1",), update("e1", easel.STATE_QUEUED)),
    ("watch_many", (easel.WatchGenerationsRequest(generation_ids=["gen_1"]),), one_of_many("gen_1", "e1")),
    ("watch_many", (easel.WatchGenerationsRequest(),), one_of_many("gen_1", "e1")),
    ("watch_account", (), account(1, initial=True)),
)


def pieces(to: int, spoil: Callable[[easel.ContentChunk], None] = lambda _: None, end: Failure | None = None) -> Answer:
    def answer(request: easel.DownloadGenerationRequest) -> Iterator[Any]:
        for at in range(request.read_offset, to, 1000):
            data = WHOLE[at : min(at + 1000, to)]
            chunk = easel.ContentChunk(offset=at, data=data, crc32c=google_crc32c.value(data))
            if at == request.read_offset:
                chunk.info.etag, chunk.info.size_bytes = "bytes-1", len(WHOLE)
            if request.read_offset == 0 and at + 1000 >= len(WHOLE):
                chunk.summary.sha256 = hashlib.sha256(WHOLE).hexdigest()
            spoil(chunk)
            yield easel.DownloadGenerationResponse(chunk=chunk)
        if end:
            yield end

    return answer


class Timer(threading.Timer):
    """Goes by the clock of the test."""

    def run(self) -> None:
        due = time.monotonic() + self.interval
        while not self.finished.wait(0.01):
            if time.monotonic() >= due:
                self.function()
                return


class Threads:
    """Calls as the client for threads does. Time passes while the client sleeps, and where the script lets it."""

    slept = "time.sleep"

    def __init__(self, addr: str, script: Script) -> None:
        self.addr = addr
        self.script = script
        self.now = 0.0

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def silence(self, _: Any) -> list[Any]:
        """Answers nothing until the client has given the stream up."""
        before = len(self.waits())
        for _ in range(1000):
            if len(self.waits()) > before:
                break
            self.pass_time(5)
            threading.Event().wait(0.01)
        return []

    def waits(self) -> list[float]:
        return [call.args[0] for call in self.sleep.call_args_list]

    @contextlib.contextmanager
    def clock(self) -> Iterator[None]:
        with (
            mock.patch(self.slept, side_effect=self.pass_time) as self.sleep,
            mock.patch("time.monotonic", lambda: self.now),
            mock.patch("threading.Timer", Timer),
            mock.patch("random.uniform", return_value=1),
        ):
            yield

    def call(self, name: str, *args: Any, first: int = 0, **named: Any) -> Any:
        """Gives all that a watch yields; or the first few, and then sees that the stream has ended."""
        with self.clock(), grpc.insecure_channel(self.addr) as channel:
            found = getattr(easel.Client(channel), name)
            if not name.startswith("watch"):
                return found(*args, **named)
            states = self.take(found(*args, **named), first)
            assert not first or self.script.left.wait(10)
            return states

    def close_within(self, name: str, *args: Any, secret: str) -> None:
        """Sees an error after the client is closed within the loop of a watch."""
        with self.clock(), easel.connect(self.addr, secret) as client:
            watch = getattr(client, name)(*args)
            next(watch)
            client.close()
            try:
                next(watch)
            except (grpc.RpcError, ValueError):
                return
            raise AssertionError("the watch goes on")

    def take(self, watch: Iterator[Any], first: int) -> list[Any]:
        states = []
        for state in watch:
            states.append(state)
            if len(states) == first:
                break
        return states


class Tasks(Threads):
    """Calls as the client for asyncio does."""

    slept = "asyncio.sleep"

    def pass_time(self, seconds: float) -> None:
        super().pass_time(seconds)
        self.loop.call_soon_threadsafe(lambda: None)  # it looks at its clock

    def call(self, name: str, *args: Any, first: int = 0, **named: Any) -> Any:
        async def go() -> Any:
            self.loop = asyncio.get_running_loop()
            async with grpc.aio.insecure_channel(self.addr) as channel:
                found = getattr(aio.Client(channel), name)
                if not name.startswith("watch"):
                    return await found(*args, **named)
                states = await self.take_async(found(*args, **named), first)
                assert not first or await asyncio.to_thread(self.script.left.wait, 10)
                return states

        with self.clock():
            return asyncio.run(go())

    def close_within(self, name: str, *args: Any, secret: str) -> None:
        async def go() -> None:
            self.loop = asyncio.get_running_loop()
            async with aio.connect(self.addr, secret) as client:
                watch = getattr(client, name)(*args)
                await anext(watch)
                coming = asyncio.ensure_future(anext(watch))
                await client.close()
                try:
                    await coming
                except grpc.aio.UsageError:
                    return
                raise AssertionError("the watch goes on")

        with self.clock():
            asyncio.run(go())

    async def take_async(self, watch: AsyncIterator[Any], first: int) -> list[Any]:
        states = []
        async for state in watch:
            states.append(state)
            if len(states) == first:
                break
        return states


class ClientTest(unittest.TestCase):
    kind: type[Threads] = Threads

    def play(self, *answers: Answer) -> tuple[Script, Threads]:
        server = grpc.server(futures.ThreadPoolExecutor(4))
        script = Script(*answers)  # type: ignore[abstract]
        easel.add_GenerationServiceServicer_to_server(script, server)
        easel.add_AccountServiceServicer_to_server(script, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        return script, self.kind(f"127.0.0.1:{port}", script)

    def test_order_goes_on_with_the_same_key_until_the_outcome_is_known(self) -> None:
        script, client = self.play(
            failing("UNAVAILABLE"),
            failing("UNAVAILABLE", "SUBMISSION_OUTCOME_UNKNOWN", delay=60),
            failing("ABORTED", "SUBMISSION_IN_PROGRESS", delay=1),
            failing("UNAVAILABLE", "A_NEWER_ONE"),
            lambda _: easel.CreateGenerationResponse(generation=easel.Generation(generation_id="gen_1")),
        )
        self.assertEqual("gen_1", client.call("order", ORDER).generation_id)
        self.assertEqual([ORDER] * 5, script.requests)
        self.assertEqual([0.5, 60, 2, 4], client.waits())

    def test_order_gives_up_where_a_repeat_can_not_mend_it(self) -> None:
        for code, reason, outcome in (
            ("RESOURCE_EXHAUSTED", "BUDGET_EXCEEDED", "not_placed"),
            ("UNAVAILABLE", "SUBMISSION_OUTCOME_UNKNOWN", "unknown"),  # without RetryInfo it is too late
            ("FAILED_PRECONDITION", "PRICE_ABOVE_LIMIT", "not_placed_by_this_call"),
            ("INTERNAL", "UPSTREAM_REDIRECT_REFUSED", "unknown"),
        ):
            with self.subTest(reason):
                script, client = self.play(failing(code, reason, outcome))
                with self.assertRaises(grpc.RpcError) as caught:
                    client.call("order", ORDER)
                self.assertEqual(easel.ErrorReason.Value(reason), easel.reason(caught.exception))
                self.assertEqual(outcome, easel.order_outcome(caught.exception))
                self.assertIsNone(easel.retry_delay(caught.exception))
                self.assertEqual(1, len(script.requests))

    def test_order_needs_an_idempotency_key(self) -> None:
        _, client = self.play()
        with self.assertRaises(ValueError):
            client.call("order", easel.CreateGenerationRequest())

    def test_watch_yields_each_state_once_over_all_streams(self) -> None:
        closing = easel.WatchGenerationResponse(closing=easel.StreamClosing(retry_delay={"seconds": 20}))  # type: ignore[arg-type]
        script, client = self.play(
            sending(update("e1", easel.STATE_QUEUED), closing, Failure("UNAVAILABLE", "SERVER_DRAINING")),
            lambda request: client.silence(request),
            sending(easel.WatchGenerationResponse(heartbeat=easel.Heartbeat()), update("e2", easel.STATE_SUCCEEDED)),
        )
        states = [one.state for one in client.call("watch", "gen_1")]
        self.assertEqual([easel.STATE_QUEUED, easel.STATE_SUCCEEDED], states)
        self.assertEqual(["", "e1", "e1"], [request.known_etag for request in script.requests])
        self.assertEqual([20, 0.5], client.waits())

    def test_watch_many_yields_each_state_once_over_all_streams(self) -> None:
        closing = easel.WatchGenerationsResponse(closing=easel.StreamClosing(retry_delay={"seconds": 20}))  # type: ignore[arg-type]
        script, client = self.play(
            sending(one_of_many("a", "a1"), closing, Failure("UNAVAILABLE", "STREAM_MAX_AGE", delay=30)),
            lambda request: client.silence(request),
            sending(one_of_many("b", "b2"), one_of_many("a", "a2", easel.STATE_DELETED), Failure("UNAVAILABLE")),
            sending(easel.WatchGenerationsResponse(caught_up=easel.CaughtUp()), one_of_many("b", "b3", easel.STATE_SUCCEEDED)),
        )
        request = easel.WatchGenerationsRequest(
            generation_ids=["a", "b"],
            until=easel.WATCH_UNTIL_SETTLED,
            known_etags={"b": "b1"},
            filter=easel.GenerationFilter(model_id="studio/haiku"),
        )
        request.heartbeat_interval.FromSeconds(20)
        before = request.SerializeToString(deterministic=True)
        self.assertEqual(["a1", "b2", "a2", "b3"], [one.etag for one in client.call("watch_many", request)])
        self.assertEqual([30, 0.5, 0.5], client.waits())
        self.assertEqual(before, request.SerializeToString(deterministic=True))
        known = [dict(one.known_etags) for one in script.requests]
        self.assertEqual([{"b": "b1"}, {"a": "a1", "b": "b1"}, {"a": "a1", "b": "b1"}, {"a": "a2", "b": "b2"}], known)
        for one in script.requests:
            one.ClearField("known_etags")
        request.ClearField("known_etags")
        self.assertEqual([request] * 4, script.requests)

    def test_watch_many_of_all_forgets_what_was_deleted(self) -> None:
        script, client = self.play(
            sending(one_of_many("a", "a1"), one_of_many("b", "b1")),
            sending(one_of_many("a", "a2", easel.STATE_DELETED)),
            sending(),
            sending(one_of_many("b", "b2"), STAY),
        )
        states = client.call("watch_many", easel.WatchGenerationsRequest(), first=4)
        self.assertEqual(["a1", "b1", "a2", "b2"], [one.etag for one in states])
        self.assertEqual([{}, {"a": "a1", "b": "b1"}, {"b": "b1"}, {"b": "b1"}], [dict(one.known_etags) for one in script.requests])
        self.assertEqual([0.5, 0.5, 1], client.waits())
        self.assertEqual([10] * 4, [one.heartbeat_interval.seconds for one in script.requests])

    def test_watch_many_sends_the_1000_that_changed_last(self) -> None:
        many = [one_of_many(f"gen_{n}", f"e{n}") for n in range(1001)]
        script, client = self.play(
            sending(*many, one_of_many("gen_0", "newer"), Failure("UNAVAILABLE")),
            sending(one_of_many("gen_1", "newer"), STAY),
        )
        request = easel.WatchGenerationsRequest(known_etags={f"old_{n}": "old" for n in range(1001)})
        self.assertEqual(1003, len(client.call("watch_many", request, first=1003)))
        self.assertEqual((1000, 1001), (len(script.requests[0].known_etags), len(request.known_etags)))
        self.assertEqual({"gen_0": "newer", **{f"gen_{n}": f"e{n}" for n in range(2, 1001)}}, dict(script.requests[1].known_etags))

    def test_watch_many_repeats_none_of_the_10_000_that_changed_last(self) -> None:
        watch = GenerationsWatch(easel.WatchGenerationsRequest(known_etags={"old": "old"}))
        old, *many = [one_of_many("old", "old"), *(one_of_many(f"gen_{n}", f"e{n}") for n in range(10_001))]
        for message, new in ((old, False), *((one, True) for one in many), *((one, False) for one in many[1:]), (many[0], True)):
            self.assertEqual(new, watch.take(message) is not None, message)

    def test_watch_many_sends_no_etag_of_what_is_finished(self) -> None:
        ends = (easel.STATE_FAILED, easel.STATE_SUCCEEDED, easel.STATE_REFUNDED, easel.STATE_DELETED)
        finished = [one_of_many(easel.State.Name(state), "e1", state) for state in ends]
        known = {easel.State.Name(state): "e1" for state in ends}
        for named, sent in (([], {"STATE_FAILED": "e1"}), ([*known, "other"], known)):
            with self.subTest(named):
                script, client = self.play(sending(*finished, Failure("UNAVAILABLE")), sending(one_of_many("other", "e1"), STAY))
                client.call("watch_many", easel.WatchGenerationsRequest(generation_ids=named), first=5)
                self.assertEqual([{}, sent], [dict(one.known_etags) for one in script.requests])

    def test_watch_takes_no_repeat_for_progress(self) -> None:
        for name, args, message, newer, found in (
            ("watch", ("gen_1",), update("e1", easel.STATE_QUEUED), update("e2", easel.STATE_RUNNING), ["e1", "e1", "e1", "e2"]),
            ("watch_many", (easel.WatchGenerationsRequest(),), one_of_many("a", "e1"), one_of_many("a", "e2"), ["e1", "e2"]),
        ):
            with self.subTest(name):
                _, client = self.play(*[sending(message, Failure("UNAVAILABLE"))] * 3, sending(newer, STAY))
                self.assertEqual(found, [one.etag for one in client.call(name, *args, first=len(found))])
                self.assertEqual([0.5, 1, 2], client.waits())

    def test_watch_ends_where_the_server_refuses_its_heartbeat(self) -> None:
        def refuse(_: Any) -> Any:
            client.pass_time(2)
            threading.Event().wait(0.1)  # as long as the client takes to look at its clock
            raise Failure("INVALID_ARGUMENT")

        for heartbeat in (0.5, 0, -1):
            script, client = self.play(refuse, failing("NOT_FOUND"))
            with self.assertRaises(grpc.RpcError):
                client.call("watch", "gen_1", heartbeat=heartbeat)
            self.assertEqual([heartbeat], [one.heartbeat_interval.ToTimedelta().total_seconds() for one in script.requests])

    def test_watch_account_repeats_no_account(self) -> None:
        closing = easel.WatchAccountResponse(closing=easel.StreamClosing(retry_delay={"seconds": 20}))  # type: ignore[arg-type]
        script, client = self.play(
            sending(account(1, initial=True), account(2), closing, Failure("UNAVAILABLE", "SERVER_DRAINING")),
            sending(account(2, initial=True)),
            lambda request: client.silence(request),
            sending(account(3, initial=True), account(2), account(2), STAY),
        )
        request = easel.WatchAccountRequest()
        found = client.call("watch_account", request, first=5)
        self.assertEqual([1, 2, 3, 2, 2], [one.balance_cents for one in found])
        self.assertEqual([20, 1, 0.5], client.waits())
        self.assertEqual(easel.WatchAccountRequest(), request)
        self.assertEqual([10] * 4, [one.heartbeat_interval.seconds for one in script.requests])

    def test_watch_stops_where_a_repeat_can_not_mend_it(self) -> None:
        final = {"NOT_FOUND", "UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNIMPLEMENTED"}
        for name, args, message in WATCHES:
            for code in grpc.StatusCode:
                if code == grpc.StatusCode.OK:
                    continue
                with self.subTest(f"{name} {code.name}"):
                    script, client = self.play(failing(code.name), sending(message, STAY))
                    if code.name in final:
                        with self.assertRaises(grpc.RpcError):
                            client.call(name, *args)
                    else:
                        client.call(name, *args, first=1)
                    self.assertEqual(1 if code.name in final else 2, len(script.requests))

    def test_watch_leaves_the_stream_with_the_loop(self) -> None:
        for name, args, message in WATCHES:
            with self.subTest(name):
                script, client = self.play(sending(message, STAY))
                self.assertEqual(1, len(client.call(name, *args, first=1)))
                self.assertEqual(1, len(script.requests))

    def test_watch_backs_off_until_there_is_progress(self) -> None:
        def long(_: Any) -> list[Any]:
            client.pass_time(11)
            return [Failure("UNAVAILABLE")]

        heartbeat = easel.WatchGenerationResponse(heartbeat=easel.Heartbeat())
        _, client = self.play(
            *(failing("UNAVAILABLE"), sending(heartbeat, Failure("UNAVAILABLE"))),
            *(sending(update("e1", easel.STATE_QUEUED), Failure("UNAVAILABLE")), failing("UNAVAILABLE")),
            *(long, *[failing("UNAVAILABLE", delay=3)] * 6, sending()),
        )
        client.call("watch", "gen_1")
        self.assertEqual([0.5, 1, 0.5, 1, 0.5, 3, 3, 4, 8, 10, 10], client.waits())

    def test_watch_account_takes_no_repeat_for_progress(self) -> None:
        _, client = self.play(
            failing("UNAVAILABLE"),
            *[sending(account(1, initial=True), Failure("UNAVAILABLE"))] * 3,
            sending(account(2, initial=True), Failure("UNAVAILABLE")),
            sending(account(2), Failure("UNAVAILABLE")),
            sending(account(3), STAY),
        )
        found = client.call("watch_account", first=4)
        self.assertEqual([1, 2, 2, 3], [one.balance_cents for one in found])
        self.assertEqual([0.5, 0.5, 1, 2, 4, 0.5], client.waits())

    def test_watch_ends_where_its_channel_is_closed(self) -> None:
        for name, args, message in WATCHES:
            for secret in ("", "secret"):
                with self.subTest(f"{name} {secret}"):
                    script, client = self.play(sending(message, STAY))
                    client.close_within(name, *args, secret=secret)
                    self.assertEqual(1, len(script.requests))

    def test_watch_ends_by_its_deadline(self) -> None:
        if self.kind is Tasks:
            self.skipTest("a task ends by its cancellation")
        for code, answer in (("UNAVAILABLE", failing("UNAVAILABLE")), ("DEADLINE_EXCEEDED", sending())):
            with self.subTest(code):
                script, client = self.play(answer)
                with self.assertRaises(grpc.RpcError) as caught:
                    client.call("watch_account", timeout=5)
                self.assertEqual(code, errors.code(caught.exception).name)
                self.assertEqual([0.5, 1, 2], client.waits())  # there is no time for 4 more
                self.assertEqual(4, len(script.requests))

    def test_run_tells_a_render_that_came_to_nothing(self) -> None:
        _, client = self.play(
            lambda _: easel.CreateGenerationResponse(generation=easel.Generation(generation_id="gen_1")),
            lambda _: [update("e1", easel.STATE_REFUNDED)],
        )
        with self.assertRaises(easel.FailedError) as caught:
            client.call("run", ORDER)
        self.assertEqual(easel.STATE_REFUNDED, caught.exception.generation.state)

    def test_download_goes_on_where_it_broke_off(self) -> None:
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

    def test_download_follows_no_link_beside_its_file(self) -> None:
        _, client = self.play(pieces(len(WHOLE)))
        with TemporaryDirectory() as directory:
            file, other = Path(directory, "file"), Path(directory, "other")
            other.write_bytes(b"mine")
            Path(directory, "file.part").symlink_to(other)
            client.call("download", "gen_1", file)
            self.assertEqual((WHOLE, b"mine"), (file.read_bytes(), other.read_bytes()))

    def test_download_takes_no_damaged_bytes(self) -> None:
        def spoil(field: str) -> Callable[[easel.ContentChunk], None]:
            return lambda chunk: setattr(chunk, field, getattr(chunk, field) ^ 1)

        def other(chunk: easel.ContentChunk) -> None:
            chunk.summary.sha256 = "0"

        for answer in (pieces(len(WHOLE), spoil("crc32c")), pieces(len(WHOLE), spoil("offset")), pieces(4990), pieces(len(WHOLE), other)):
            script, client = self.play(answer)
            with TemporaryDirectory() as directory, self.subTest():
                with self.assertRaises(easel.DamagedError):
                    client.call("download", "gen_1", Path(directory, "file"))
                self.assertEqual([], list(Path(directory).iterdir()))
                self.assertEqual(1, len(script.requests))


class Cancelling:
    """Is a stream whose reader is cancelled as the message arrives."""

    reader: "asyncio.Future[None]"

    async def __aiter__(self) -> AsyncIterator[Any]:
        self.reader.cancel()
        yield update("e1", easel.STATE_QUEUED)

    def cancel(self) -> None:
        pass


class TasksTest(ClientTest):
    kind = Tasks

    def test_watch_ends_with_its_task_as_a_message_arrives(self) -> None:
        stream = Cancelling()

        async def go() -> None:
            async for _ in aio._follow(lambda _: stream, GenerationWatch(easel.WatchGenerationRequest())):
                pass

        async def cancelled() -> bool:
            stream.reader = asyncio.ensure_future(go())
            await asyncio.wait((stream.reader,))
            return stream.reader.cancelled()

        self.assertTrue(asyncio.run(cancelled()))


if __name__ == "__main__":
    unittest.main()
