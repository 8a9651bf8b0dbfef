"""Does what watching.py does, by asyncio."""

import asyncio
import os

import grpc
from google.protobuf.duration_pb2 import Duration

import easel
from easel import aio


async def renders(client: aio.Client) -> None:
    try:
        async for render in client.watch_many(easel.WatchGenerationsRequest(heartbeat_interval=Duration(seconds=2))):
            print("render:", render.generation_id, easel.State.Name(render.state), render.etag, flush=True)
    except grpc.RpcError as error:
        print("renders:", easel.ErrorReason.Name(easel.reason(error)), flush=True)


async def account(client: aio.Client) -> None:
    try:
        async for account in client.watch_account(easel.WatchAccountRequest(heartbeat_interval=Duration(seconds=2))):
            print("balance:", account.balance_cents, flush=True)
    except grpc.RpcError as error:
        print("account:", easel.ErrorReason.Name(easel.reason(error)), flush=True)


async def main() -> None:
    async with aio.connect(os.environ["EASEL_ADDR"], os.environ["EASEL_API_KEY"]) as client:
        await asyncio.gather(renders(client), account(client))


asyncio.run(main())
