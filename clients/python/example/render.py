"""Orders one render from Easel, watches it until it is finished, and saves its file.

It may be killed at any moment: the same command goes on with the same order.
"""

import json
import os
import sys
import uuid
from pathlib import Path

import grpc

import easel


def render(model: str, prompt: str, file: str) -> easel.Generation:
    inputs = json.dumps({"prompt": prompt})
    # With credentials=grpc.ssl_channel_credentials() where the server has a certificate.
    with easel.connect(os.environ.get("EASEL_ADDR", "localhost:50051"), os.environ.get("EASEL_API_KEY", "")) as client:
        quote = client.generations.QuoteGeneration(easel.QuoteGenerationRequest(model_id=model, inputs_json=inputs), timeout=60).quote
        print("price:", quote.price_cents, "cents", flush=True)
        # The key is on disk before the order leaves: whatever happens then, it is one order.
        key = Path(file + ".key")
        if not key.exists() or not key.read_text():
            key.write_text(str(uuid.uuid4()))
        order = easel.CreateGenerationRequest(
            model_id=model, inputs_json=inputs, idempotency_key=key.read_text(), max_cost_cents=quote.price_cents
        )
        found = client.order(order, timeout=600)
        print("ordered:", found.generation_id, flush=True)
        for found in client.watch(found.generation_id, timeout=600):
            print("watching:", easel.State.Name(found.state), flush=True)
        if found.state == easel.STATE_SUCCEEDED:
            client.download(found.generation_id, file, timeout=600)
        key.unlink()  # the next run is a new order
        return found


def main(model: str, prompt: str, file: str) -> str | None:
    try:
        found = render(model, prompt, file)
        return None if found.state == easel.STATE_SUCCEEDED else f"failed: {easel.State.Name(found.state)} {found.failure_message}"
    except grpc.RpcError as error:
        return "\n  ".join([f"failed: {error}", *(f"{one.DESCRIPTOR.name}: {one}" for one in easel.details(error))])


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: render.py MODEL PROMPT FILE")
    sys.exit(main(*sys.argv[1:]))
