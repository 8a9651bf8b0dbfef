"""Makes one call and prints the result."""

import logging
import os
import sys
from pathlib import Path

import easel_grpc as easel
from easel_grpc.requests import Made

sys.stdout = open(1, "w", buffering=1)  # line-buffered, because the log has the same output
timeout = float(os.environ["PLAY_TIMEOUT"]) if "PLAY_TIMEOUT" in os.environ else None
attempts = int(os.environ["PLAY_ATTEMPTS"]) if "PLAY_ATTEMPTS" in os.environ else None


def name(error: easel.Error) -> str:
    return type(error).__name__


def show(render: easel.Render) -> None:
    print("render", render.generation_id, render.state, render.etag)


def order(client: easel.Client, key: str) -> None:
    try:
        placed = client.order(
            "studio/landscape", {"prompt": "rain"}, key=Made.KEY if key == "-" else key, max_cost_cents=50, labels={"campaign": "winter"}, timeout=timeout
        )
        print("placed", placed.generation_id, placed.key, str(placed.replayed).lower())
    except easel.Error as error:
        fail(error)


def fail(error: easel.Error) -> None:
    budget = error if isinstance(error, easel.BudgetExceeded) else None
    print(
        *("failed", name(error), error.reason or "-"),
        *(f"key={error.key or '-'}", f"outcome={error.order_outcome or '-'}", f"retryable={str(error.is_retryable).lower()}"),
        f"after={int(error.retry_after.total_seconds()) if error.retry_after else '-'}",
        f"remaining={budget.remaining_cents if budget else '-'}",
        f"reset={budget.reset_time.isoformat().replace('+00:00', 'Z') if budget and budget.reset_time else '-'}",
        f"fields={','.join(one.field for one in error.field_violations) or '-'}",
    )
    if budget and budget.label_name:
        print("label", budget.label_name, budget.label_value)
    if error.request_id:
        print("request", error.request_id)
    if isinstance(error, easel.Timeout) and error.heartbeat:
        print("last", error.heartbeat.last_error)


def watch(client: easel.Client, generation_id: str) -> None:
    try:
        for render in client.watch(generation_id, timeout=timeout):
            show(render)
        print("ended")
    except easel.Error as error:
        fail(error)


def play(client: easel.Client, call: str, names: list[str]) -> None:
    if call == "many":
        for render in client.watch_many(names, timeout=timeout):
            show(render)
    elif call == "all":
        for render in client.watch_many(timeout=timeout):
            show(render)
    elif call == "read account":
        print("balance", client.account(timeout=timeout, attempts=attempts).balance_cents)
    elif call == "models":
        for model in client.models(timeout=timeout):
            print("model", model.model_id, model.output_kind, len(model.input_fields))
    elif call == "model":
        model = client.model(names[0], timeout=timeout)
        for field in model.input_fields:
            print("input", field.name, field.type, str(field.required).lower(), field.default_value, len(field.allowed_values), f"{field.maximum:g}")
    elif call == "quote":
        quote = client.quote("studio/landscape", {"prompt": "rain"}, timeout=timeout)
        print("quote", quote.price_cents, quote.balance_cents, str(quote.affordable).lower())
    elif call == "get":
        show(client.get(names[0], timeout=timeout))
    elif call == "wait":
        show(client.wait(names[0], timeout=timeout))
    elif call == "delete":
        client.delete(names[0], timeout=timeout)
    elif call == "list":
        for render in client.list(labels={"campaign": "winter"}, timeout=timeout):
            show(render)
    elif call == "usage":
        for row in client.usage(timeout=timeout):
            print("usage", row.model_id, row.order_count, row.cost_cents)
    elif call == "download":
        client.download(names[0], names[1], timeout=timeout)
        print("file", Path(names[1]).read_text())
    else:
        raise ValueError(call)
    print("ended")


def main() -> None:
    client = easel.Client(
        on_retry=lambda error, _: print("again", name(error)),
        on_heartbeat=lambda _: print("heartbeat"),
        on_key=lambda _: print("key made"),
    )
    call, *names = sys.argv[1:]
    if call == "order":
        for key in names:
            order(client, key)
    elif call == "watch":
        for generation_id in names:
            watch(client, generation_id)
    elif call == "run":
        client.run("studio/landscape", {"prompt": "rain"}, key=names[0], max_cost_cents=50, labels={"campaign": "winter"}, timeout=timeout)
    else:
        play(client, call, names)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    try:
        main()
    except easel.Error as error:
        fail(error)
    except OSError as error:
        print("failed", error.strerror)
