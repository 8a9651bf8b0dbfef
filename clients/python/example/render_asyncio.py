"""Does the same as render.py, but with the asyncio client."""

import asyncio
import sys
import uuid
from pathlib import Path

import easel_grpc as easel


async def main(model: str, prompt: str, file: str) -> str | None:
    inputs = {"prompt": prompt}
    # The key is stored before the order is sent, so that a rerun does not order twice.
    key = Path(file + ".key")
    if not key.exists() or not key.read_text():
        key.write_text(str(uuid.uuid4()))
    async with easel.aio.Client() as client:  # uses EASEL_ADDR and EASEL_API_KEY
        await client.account(timeout=10)  # fails if the address, the key or the certificate is wrong
        price = (await client.quote(model, inputs)).price_cents
        print("price:", price, "cents", flush=True)
        order = await client.order(model, inputs, key=key.read_text(), max_cost_cents=price)
        print("ordered:", order.generation_id, flush=True)
        render = order.render
        async for render in client.watch(order, timeout=600):
            print("watching:", render.state, flush=True)
        if render.state == easel.State.SUCCEEDED:
            await client.download(render, file, timeout=600)
    key.unlink()  # without the key, the next run places a new order
    return None if render.state == easel.State.SUCCEEDED else f"failed: {render.state} {render.failure_message}"


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(*sys.argv[1:])))
    except easel.Error as error:
        sys.exit(f"failed: {error} {error.field_violations}")
