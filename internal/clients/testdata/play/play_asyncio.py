"""Does the same as play.py, with asyncio."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import easel_grpc as easel
from easel_grpc.requests import Made
from play import attempts, fail, name, show, timeout

ORDER: dict[str, Any] = {"max_cost_cents": 50, "labels": {"campaign": "winter"}, "timeout": timeout}


async def order(client: easel.aio.Client, key: str) -> None:
    try:
        placed = await client.order("studio/landscape", {"prompt": "rain"}, key=Made.KEY if key == "-" else key, **ORDER)
        print("placed", placed.generation_id, placed.key, str(placed.replayed).lower())
    except easel.Error as error:
        fail(error)


async def shown(renders: AsyncIterator[easel.Render]) -> None:
    async for render in renders:
        show(render)
    print("ended")


async def watch(client: easel.aio.Client, generation_id: str) -> None:
    try:
        await shown(client.watch(generation_id, timeout=timeout))
    except easel.Error as error:
        fail(error)


async def play(client: easel.aio.Client, call: str, names: list[str]) -> None:
    if call == "run":
        await client.run("studio/landscape", {"prompt": "rain"}, key=names[0], **ORDER)
    elif call == "many":
        await shown(client.watch_many(names, timeout=timeout))
    elif call == "all":
        await shown(client.watch_many(timeout=timeout))
    elif call == "read account":
        print("balance", (await client.account(timeout=timeout, attempts=attempts)).balance_cents)
        print("ended")
    elif call == "models":
        async for model in client.models(timeout=timeout):
            print("model", model.model_id, model.output_kind, len(model.input_fields))
        print("ended")
    elif call == "model":
        model = await client.model(names[0], timeout=timeout)
        for field in model.input_fields:
            print("input", field.name, field.type, str(field.required).lower(), field.default_value, len(field.allowed_values), f"{field.maximum:g}")
        print("ended")
    elif call == "quote":
        quote = await client.quote("studio/landscape", {"prompt": "rain"}, timeout=timeout)
        print("quote", quote.price_cents, quote.balance_cents, str(quote.affordable).lower())
        print("ended")
    elif call == "get":
        show(await client.get(names[0], timeout=timeout))
        print("ended")
    elif call == "wait":
        show(await client.wait(names[0], timeout=timeout))
        print("ended")
    elif call == "delete":
        await client.delete(names[0], timeout=timeout)
        print("ended")
    elif call == "list":
        await shown(client.list(labels={"campaign": "winter"}, timeout=timeout))
    elif call == "usage":
        async for row in client.usage(timeout=timeout):
            print("usage", row.model_id, row.order_count, row.cost_cents)
        print("ended")
    elif call == "download":
        await client.download(names[0], names[1], timeout=timeout)
        print("file", Path(names[1]).read_text())
        print("ended")
    else:
        raise ValueError(call)


async def main() -> None:
    client = easel.aio.Client(
        on_retry=lambda error, _: print("again", name(error)),
        on_heartbeat=lambda _: print("heartbeat"),
        on_key=lambda _: print("key made"),
    )
    call, *names = sys.argv[1:]
    async with client:
        if call == "order":
            for key in names:
                await order(client, key)
        elif call == "watch":
            for generation_id in names:
                await watch(client, generation_id)
        else:
            await play(client, call, names)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    try:
        asyncio.run(main())
    except easel.Error as error:
        fail(error)
    except OSError as error:
        print("failed", error.strerror)
