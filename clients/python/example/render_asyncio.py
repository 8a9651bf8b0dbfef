"""Does what render.py does, by asyncio."""

import asyncio
import json
import os
import sys
import uuid
from pathlib import Path

import grpc

import easel
from easel import aio


async def main(model: str, prompt: str, file: str) -> str | None:
    inputs = json.dumps({"prompt": prompt})
    async with aio.connect(os.environ.get("EASEL_ADDR", "localhost:50051"), os.environ.get("EASEL_API_KEY", "")) as client:
        quote = (await client.generations.QuoteGeneration(easel.QuoteGenerationRequest(model_id=model, inputs_json=inputs))).quote
        print("price:", quote.price_cents, "cents", flush=True)
        # The key is on disk before the order leaves: whatever happens then, it is one order.
        key = Path(file + ".key")
        if not key.exists() or not key.read_text():
            key.write_text(str(uuid.uuid4()))
        order = easel.CreateGenerationRequest(
            model_id=model, inputs_json=inputs, idempotency_key=key.read_text(), max_cost_cents=quote.price_cents
        )
        render = await client.order(order)
        print("ordered:", render.generation_id, flush=True)
        async for render in client.watch(render.generation_id):
            print("watching:", easel.State.Name(render.state), flush=True)
        if render.state == easel.STATE_SUCCEEDED:
            await client.download(render.generation_id, file)
        key.unlink()  # the next run is a new order
        return None if render.state == easel.STATE_SUCCEEDED else f"failed: {easel.State.Name(render.state)} {render.failure_message}"


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 600)))
    except grpc.RpcError as error:
        sys.exit("\n  ".join([f"failed: {error}", *(f"{one.DESCRIPTOR.name}: {one}" for one in easel.details(error))]))
