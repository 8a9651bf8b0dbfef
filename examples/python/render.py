"""Orders one render from Easel, watches it until it is finished, and saves its file.

It may be killed at any moment: the same command goes on with the same order.
"""

import os
import random
import sys
import threading
import time
import uuid
from pathlib import Path

import google_crc32c
import google.rpc.error_details_pb2  # type: ignore[import-untyped]  # or no detail of an error can be read
import grpc
from google.protobuf import any_pb2, struct_pb2, symbol_database
from grpc_status import rpc_status

from easel import v1 as easel

DEADLINE = 600.0  # seconds, of everything
HEARTBEAT = 3  # seconds
PASSING = ("UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED", "RESOURCE_EXHAUSTED")


class Client:
    def __init__(self, channel: grpc.Channel, key: str) -> None:
        self.stub = easel.GenerationServiceStub(channel)
        self.metadata = (("authorization", "Bearer " + key),)
        self.end = time.monotonic() + DEADLINE

    def left(self) -> float:
        return max(self.end - time.monotonic(), 0.0)

    def again(self, error: grpc.RpcError) -> None:
        """Waits before another attempt, where there is time for one."""
        if self.left() == 0:
            raise error
        print("again:", status_of(error), flush=True)
        time.sleep(random.uniform(0.3, 1.0))

    def order(self, model: str, prompt: str, key_file: Path) -> easel.Generation:
        inputs = struct_pb2.Struct()
        inputs.update({"prompt": prompt})
        quote = easel.QuoteGenerationRequest(model_id=model, inputs=inputs)
        price = self.stub.QuoteGeneration(quote, timeout=self.left(), metadata=self.metadata).quote.price_cents
        print("price:", price, "cents", flush=True)
        # The key is on disk before the order leaves: whatever happens then, it is one order.
        key = stored_key(key_file)
        order = easel.CreateGenerationRequest(model_id=model, inputs=inputs, idempotency_key=key, max_cost_cents=price)
        return self.stub.CreateGeneration(order, timeout=self.left(), metadata=self.metadata).generation

    def watch(self, render: easel.Generation) -> easel.Generation:
        """Follows a render to its end, over as many streams as it takes."""
        while True:
            request = easel.WatchGenerationRequest(generation_id=render.generation_id, known_etag=render.etag)
            request.heartbeat_interval.FromSeconds(HEARTBEAT)
            stream = self.stub.WatchGeneration(request, timeout=self.left(), metadata=self.metadata)
            silence = threading.Timer(3 * HEARTBEAT, stream.cancel)
            try:
                silence.start()
                for message in stream:
                    silence.cancel()
                    silence = threading.Timer(3 * HEARTBEAT, stream.cancel)
                    silence.start()
                    if message.HasField("update"):
                        render = message.update.generation
                    more = message.heartbeat.typical_remaining.seconds
                    print("watching:", easel.State.Name(render.state), f"{more} s left" if more else "", flush=True)
                return render
            except grpc.RpcError as error:  # any: only at the goal does a stream end without one
                self.again(error)
            finally:
                silence.cancel()

    def download(self, generation_id: str, path: Path) -> None:
        """Fetches the bytes over as many streams as it takes, and names the file when all are there."""
        part, etag, size, done = Path(f"{path}.part"), "", 0, False
        with part.open("wb") as file:
            while not done:
                request = easel.DownloadGenerationRequest(generation_id=generation_id, read_offset=size, etag=etag)
                try:
                    for message in self.stub.DownloadGeneration(request, timeout=self.left(), metadata=self.metadata):
                        chunk = message.chunk
                        etag = chunk.info.etag or etag  # the rest must be of the same bytes
                        if chunk.offset != size or google_crc32c.value(chunk.data) != chunk.crc32c:
                            raise ValueError("bytes arrived damaged")
                        size += file.write(chunk.data)
                        print("downloaded:", size, "bytes", flush=True)
                    done = True
                except grpc.RpcError as error:
                    if not status_of(error).startswith(PASSING):
                        raise
                    self.again(error)
        part.rename(path)


def stored_key(path: Path) -> str:
    if not path.exists() or not path.read_text():
        path.write_text(str(uuid.uuid4()))
    return path.read_text()


def status_of(error: grpc.RpcError) -> str:
    return f"{error.code().name} {error.details()}" if isinstance(error, grpc.Call) else str(error)


def explain(error: grpc.RpcError) -> None:
    print("failed:", status_of(error), file=sys.stderr)
    status = rpc_status.from_call(error) if isinstance(error, grpc.Call) else None
    details: list[any_pb2.Any] = list(status.details) if status else []
    for packed in details:
        detail = symbol_database.Default().GetSymbol(packed.TypeName())()
        packed.Unpack(detail)
        print(f"  {packed.TypeName()}: {detail}".rstrip().replace("\n", " "), file=sys.stderr)


def main(model: str, prompt: str, file: str) -> int:
    options = [  # the first retries unary calls, the others find a connection that is lost
        ("grpc.service_config", easel.SERVICE_CONFIG),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.ping_timeout_ms", 5_000),
    ]
    key_file = Path(file + ".key")
    # grpc.secure_channel where the server has a certificate.
    with grpc.insecure_channel(os.environ.get("EASEL_ADDR", "localhost:50051"), options) as channel:
        client = Client(channel, os.environ.get("EASEL_API_KEY", ""))
        try:
            render = client.order(model, prompt, key_file)
            print("ordered:", render.generation_id, flush=True)
            render = client.watch(render)
            if render.state == easel.State.STATE_SUCCEEDED:
                client.download(render.generation_id, Path(file))
        except grpc.RpcError as error:
            explain(error)
            return 1
    key_file.unlink()  # the next run is a new order
    if render.state == easel.State.STATE_SUCCEEDED:
        return 0
    print("failed:", easel.State.Name(render.state), render.failure_message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: render.py MODEL PROMPT FILE")
    sys.exit(main(*sys.argv[1:]))
