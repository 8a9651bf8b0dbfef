"""Prints each state of every render and each balance, until neither can be watched any more."""

import os
import threading

import grpc
from google.protobuf.duration_pb2 import Duration

import easel


def tell(*words: str) -> None:
    print(" ".join(words) + "\n", end="", flush=True)  # a line at once, as there are two threads


def renders(client: easel.Client) -> None:
    try:
        for render in client.watch_many(easel.WatchGenerationsRequest(heartbeat_interval=Duration(seconds=2))):
            tell("render:", render.generation_id, easel.State.Name(render.state), render.etag)
    except grpc.RpcError as error:
        tell("renders:", easel.ErrorReason.Name(easel.reason(error)))


def account(client: easel.Client) -> None:
    try:
        for account in client.watch_account(easel.WatchAccountRequest(heartbeat_interval=Duration(seconds=2))):
            tell("balance:", str(account.balance_cents))
    except grpc.RpcError as error:
        tell("account:", easel.ErrorReason.Name(easel.reason(error)))


with easel.connect(os.environ["EASEL_ADDR"], os.environ["EASEL_API_KEY"]) as client:
    both = [threading.Thread(target=watching, args=(client,)) for watching in (renders, account)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
