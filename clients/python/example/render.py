"""Orders one render from Easel, watches it until it is finished, and saves its file.

You can kill the program at any time. To continue with the same order, run the same command again.
"""

import sys
import uuid
from pathlib import Path

import easel_grpc as easel


def main(model: str, prompt: str, file: str) -> str | None:
    inputs = {"prompt": prompt}
    # The key is stored before the order is sent, so that a rerun does not order twice.
    key = Path(file + ".key")
    if not key.exists() or not key.read_text():
        key.write_text(str(uuid.uuid4()))
    client = easel.Client()  # uses EASEL_ADDR and EASEL_API_KEY
    try:
        client.account(timeout=10)  # fails if the address, the key or the certificate is wrong
        price = client.quote(model, inputs).price_cents
        print("price:", price, "cents", flush=True)
        order = client.order(model, inputs, key=key.read_text(), max_cost_cents=price)
        print("ordered:", order.generation_id, flush=True)
        render = order.render
        for render in client.watch(order, timeout=600):
            print("watching:", render.state, flush=True)
        if render.state == easel.State.SUCCEEDED:
            client.download(render, file, timeout=600)
    except easel.Error as error:
        return f"failed: {error} {error.field_violations}"
    key.unlink()  # without the key, the next run places a new order
    return None if render.state == easel.State.SUCCEEDED else f"failed: {render.state} {render.failure_message}"


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: render.py MODEL PROMPT FILE")
    sys.exit(main(*sys.argv[1:]))
