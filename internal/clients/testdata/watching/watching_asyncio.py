"""Does what watching.py does, by asyncio."""

import asyncio

import easel


async def renders(client: easel.aio.Client) -> None:
    try:
        async for render in client.watch_many(heartbeat=2):
            print("render:", render.generation_id, render.state, render.etag, flush=True)
    except easel.Error as error:
        print("renders:", error.reason, flush=True)


async def account(client: easel.aio.Client) -> None:
    try:
        async for account in client.watch_account(heartbeat=2):
            print("balance:", account.balance_cents, flush=True)
    except easel.Error as error:
        print("account:", error.reason, flush=True)


async def main() -> None:
    async with easel.aio.Client() as client:
        await asyncio.gather(renders(client), account(client))


asyncio.run(main())
