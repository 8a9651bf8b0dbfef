"""Prints each state of every render and each balance, until neither can be watched any more."""

import threading

import easel


def tell(*words: object) -> None:
    print(" ".join(map(str, words)) + "\n", end="", flush=True)  # a line at once, as there are two threads


def renders(client: easel.Client) -> None:
    try:
        for render in client.watch_many(heartbeat=2):
            tell("render:", render.generation_id, render.state, render.etag)
    except easel.Error as error:
        tell("renders:", error.reason)


def account(client: easel.Client) -> None:
    try:
        for account in client.watch_account(heartbeat=2):
            tell("balance:", account.balance_cents)
    except easel.Error as error:
        tell("account:", error.reason)


client = easel.Client()
for watching in (renders, account):
    threading.Thread(target=watching, args=(client,)).start()
