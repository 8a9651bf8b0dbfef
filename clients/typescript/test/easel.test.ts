// The client against a server that answers by a script.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import * as http2 from "node:http2";
import * as net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { clone, create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createRouterTransport, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { connect, Easel, FailedError, orderOutcome, reason, retryDelay, type StreamOptions } from "@easel-grpc/easel";
import { ErrorInfoSchema, RetryInfoSchema } from "@easel-grpc/easel/errors";
import {
  AccountService,
  ErrorReason,
  GenerationService,
  State,
  WatchGenerationsRequestSchema,
  type CreateGenerationRequest,
  type DownloadGenerationRequest,
  type DownloadGenerationResponseSchema,
  type WatchAccountResponseSchema,
  type WatchGenerationRequest,
  type WatchGenerationsRequest,
  type WatchGenerationsResponseSchema,
} from "@easel-grpc/easel/v1";

type Watched = MessageInitShape<typeof WatchGenerationsResponseSchema> | MessageInitShape<typeof WatchAccountResponseSchema>;
type Chunk = MessageInitShape<typeof DownloadGenerationResponseSchema>["chunk"] & { offset: bigint; data: Uint8Array; crc32c: number };
type Answer<I, O> = (request: I, context: HandlerContext) => O;

const order = { modelId: "studio/haiku", idempotencyKey: "key-1" };
const whole = new Uint8Array(5000).map((_, n) => n % 251);

/** A client whose calls are answered one after the other, all after the last by the last, and what it asked. */
function play<I extends object, O>(...answers: Answer<I, O>[]) {
  const requests: I[] = [];
  const next = (request: object, context: HandlerContext): O => {
    requests.push(request as I);
    return answers[Math.min(requests.length, answers.length) - 1]!(request as I, context);
  };
  const stream = async function* (request: object, context: HandlerContext) {
    yield* next(request, context) as AsyncIterable<never>;
  };
  const transport = createRouterTransport(({ service }) => {
    service(GenerationService, {
      createGeneration: (request, context) => next(request, context) as never,
      watchGeneration: stream,
      watchGenerations: stream,
      downloadGeneration: stream,
    });
    service(AccountService, { watchAccount: stream });
  });
  return { easel: new Easel(transport), requests };
}

function failure(code: Code, why = "", delaySeconds?: number, outcome = "unknown"): ConnectError {
  return new ConnectError("scripted", code, undefined, [
    ...(why ? [{ desc: ErrorInfoSchema, value: { domain: "easel", reason: why, metadata: { order_outcome: outcome } } }] : []),
    ...(delaySeconds === undefined ? [] : [{ desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(delaySeconds) } } }]),
  ]);
}

const failing = (...args: Parameters<typeof failure>) => () => {
  throw failure(...args);
};

const told = (...messages: (Watched | ConnectError)[]) =>
  async function* () {
    for (const message of messages) {
      if (message instanceof ConnectError) throw message;
      yield message;
    }
  };

const silent = async function* (_: object, { signal }: HandlerContext) {
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
};

const update = (etag: string, state: State, generationId = "gen_1"): Watched => ({
  event: { case: "update", value: { generation: { generationId, etag, state } } },
});

let readings = 0n;
const account = (balanceCents: bigint, initial: boolean): Watched => ({
  event: {
    case: "update",
    value: { account: { balanceCents, observeTime: { seconds: readings++ }, upstreamFields: { readings: Number(readings) } }, initial },
  },
});

const closing: Watched = { event: { case: "closing", value: { retryDelay: { seconds: 2n } } } };

/** An update for each kind of watch, which takes its own part of it. */
const anyUpdate: Watched = {
  event: { case: "update", value: { generation: { generationId: "gen_1", etag: "e1", state: State.SUCCEEDED }, account: { balanceCents: 500n } } },
};

const watches: Record<string, (easel: Easel, options?: StreamOptions, heartbeatMs?: number) => AsyncGenerator<object>> = {
  watch: (easel, options, heartbeatMs = 15_000) => easel.watch("gen_1", { ...options, heartbeatMs }),
  watchMany: (easel, options, heartbeatMs = 15_000) =>
    easel.watchMany({ generationIds: ["gen_1"], heartbeatInterval: durationFromMs(heartbeatMs) }, options),
  watchAccount: (easel, options, heartbeatMs = 15_000) => easel.watchAccount({ heartbeatInterval: durationFromMs(heartbeatMs) }, options),
};

const final = [Code.NotFound, Code.Unauthenticated, Code.PermissionDenied, Code.InvalidArgument, Code.FailedPrecondition, Code.Unimplemented];

/** Sends the bytes from the offset up to so many, and ends so. */
const pieces = (to: number, spoil: (chunk: Chunk) => void = () => {}, end?: ConnectError) =>
  async function* ({ readOffset }: DownloadGenerationRequest) {
    for (let at = Number(readOffset); at < to; at += 1000) {
      const data = whole.subarray(at, Math.min(at + 1000, to));
      const chunk: Chunk = { offset: BigInt(at), data, crc32c: crc32c(data) };
      if (at === Number(readOffset)) chunk.info = { etag: "bytes-1", sizeBytes: BigInt(whole.length) };
      if (readOffset === 0n && at + 1000 >= whole.length) chunk.summary = { sha256: createHash("sha256").update(whole).digest("hex") };
      spoil(chunk);
      yield { chunk };
    }
    if (end) throw end;
  };

function crc32c(data: Uint8Array): number {
  let crc = ~0;
  for (const byte of data) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return ~crc >>> 0;
}

test("calls go on after a connection was lost while a ping was on its way", { timeout: 20_000 }, async (t) => {
  const routes = ({ service }: ConnectRouter) => service(AccountService, { getAccount: () => ({ account: { balanceCents: 500n } }) });
  const server = http2.createServer(connectNodeAdapter({ routes }));
  await once(server.listen(0, "127.0.0.1"), "listening");
  let frozen = false;
  const wires = new Set<net.Socket>();
  const proxy = net.createServer((caller) => {
    const called = net.connect((server.address() as net.AddressInfo).port, "127.0.0.1");
    for (const wire of [caller, called]) wires.add(wire.on("error", () => undefined).on("close", () => [caller, called].map((one) => one.destroy())));
    caller.on("data", (data) => frozen || called.write(data));
    called.on("data", (data) => caller.write(data));
  });
  await once(proxy.listen(0, "127.0.0.1"), "listening");
  t.after(() => [...wires].map((wire) => wire.destroy()) && [proxy, server].map((one) => one.close()));
  const easel = connect(`http://127.0.0.1:${(proxy.address() as net.AddressInfo).port}`, "", { pingIntervalMs: 50, pingTimeoutMs: 200 });
  const balance = async () => (await easel.accounts.getAccount({})).account?.balanceCents;

  assert.equal(await balance(), 500n);
  await sleep(100);
  frozen = true;
  const first = balance(); // it waits for the ping
  await sleep(50);
  for (const wire of wires) wire.end();
  frozen = false;
  assert.equal(await first, 500n);
  await sleep(100);
  assert.equal(await balance(), 500n);
});

test("an address without its scheme is refused, for no repeat mends it", () => {
  assert.throws(() => connect("localhost:50051"), /must begin with http:/);
});

describe("a client", { concurrency: true, timeout: 30_000 }, () => {
  test("order goes on with the same key until its outcome is known", async () => {
    const { easel, requests } = play<CreateGenerationRequest, unknown>(
      failing(Code.Unavailable),
      failing(Code.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", 2),
      failing(Code.Aborted, "SUBMISSION_IN_PROGRESS", 1),
      failing(Code.Unavailable, "A_NEWER_ONE"),
      () => ({ generation: { generationId: "gen_1" } }),
    );
    const delays: number[] = [];
    const render = await easel.order(order, { onRetry: (_, delay) => delays.push(delay) });
    assert.equal(render.generationId, "gen_1");
    assert.deepEqual(requests.map(({ idempotencyKey }) => idempotencyKey), Array(5).fill("key-1"));
    assert.ok(delays.length === 4 && delays[0]! < 1000 && delays[1]! >= 2000 && delays[2]! >= 1000, String(delays));
  });

  for (const [code, why, outcome] of [
    [Code.ResourceExhausted, "BUDGET_EXCEEDED", "not_placed"],
    [Code.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", "unknown"], // without RetryInfo it is too late
    [Code.FailedPrecondition, "PRICE_ABOVE_LIMIT", "not_placed_by_this_call"],
    [Code.Internal, "UPSTREAM_REDIRECT_REFUSED", "unknown"],
  ] as const) {
    test(`order gives up after ${why}`, async () => {
      const { easel, requests } = play(failing(code, why, undefined, outcome));
      await assert.rejects(easel.order(order), (error) => {
        assert.deepEqual([reason(error), orderOutcome(error), retryDelay(error)], [ErrorReason[why], outcome, undefined]);
        return true;
      });
      assert.equal(requests.length, 1);
    });
  }

  test("order needs an idempotency key", async () => {
    const { easel, requests } = play(failing(Code.Unavailable));
    await assert.rejects(easel.order({ modelId: "studio/haiku", idempotencyKey: "" }), { code: Code.InvalidArgument });
    assert.equal(requests.length, 0);
  });

  test("the signal ends an order with what is known of it", async () => {
    const { easel } = play(failing(Code.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", 600));
    const ended = new AbortController();
    const ordered = easel.order(order, { signal: ended.signal, onRetry: () => ended.abort() });
    await assert.rejects(ordered, (error) => reason(error) === ErrorReason.SUBMISSION_OUTCOME_UNKNOWN && retryDelay(error) === 600_000);
  });

  test("watch yields each state once over all streams", async () => {
    const { easel, requests } = play<WatchGenerationRequest, AsyncIterable<Watched>>(
      told(update("e1", State.QUEUED), closing, failure(Code.Unavailable, "SERVER_DRAINING", 1)),
      silent,
      told({ event: { case: "heartbeat", value: {} } }, update("e2", State.SUCCEEDED)),
    );
    const delays: number[] = [];
    const states: State[] = [];
    let heartbeats = 0;
    const options = { heartbeatMs: 100, onRetry: (_: unknown, delay: number) => delays.push(delay), onHeartbeat: () => heartbeats++ };
    for await (const { state } of easel.watch("gen_1", options)) states.push(state);
    assert.deepEqual(states, [State.QUEUED, State.SUCCEEDED]);
    assert.deepEqual(requests.map(({ knownEtag }) => knownEtag), ["", "e1", "e1"]);
    assert.ok(heartbeats === 1 && delays.length === 2 && delays[0]! >= 2000, String(delays));
  });

  for (const [name, open] of Object.entries(watches)) {
    for (const code of Object.values(Code).filter((code): code is Code => typeof code === "number")) {
      test(`${name} ${final.includes(code) ? "stops" : "goes on"} after ${Code[code]}`, async () => {
        const { easel, requests } = play(failing(code), told(anyUpdate));
        const watched = open(easel).next();
        await (final.includes(code) ? assert.rejects(watched, { code }) : watched);
        assert.equal(requests.length, final.includes(code) ? 1 : 2);
      });
    }

    for (const heartbeatMs of [-1000, 0, 300]) {
      test(`${name} ends where the server refuses ${heartbeatMs} ms between heartbeats`, async () => {
        const { easel, requests } = play<WatchGenerationRequest, unknown>(async function* () {
          await sleep(1000);
          throw failure(Code.InvalidArgument);
        });
        const onRetry = (error: ConnectError) => assert.fail(error);
        await assert.rejects(open(easel, { onRetry }, heartbeatMs).next(), { code: Code.InvalidArgument });
        assert.deepEqual(requests.map(({ heartbeatInterval }) => heartbeatInterval), [durationFromMs(heartbeatMs)]);
      });
    }

    test(`${name} gives up a silent stream`, async () => {
      const { easel } = play<object, unknown>(silent, told(anyUpdate));
      const errors: string[] = [];
      const { done } = await open(easel, { onRetry: ({ message }) => errors.push(message) }, 300).next();
      assert.ok(!done);
      assert.match(errors[0]!, /three heartbeats are missing/);
    });

    test(`${name} ends its stream where the caller leaves the loop`, async () => {
      let end = () => {};
      const ended = new Promise<void>((resolve) => (end = resolve));
      const { easel, requests } = play(async function* (_: object, { signal }: HandlerContext) {
        signal.addEventListener("abort", end);
        yield anyUpdate;
        await ended;
      });
      for await (const _ of open(easel)) break;
      await ended;
      assert.equal(requests.length, 1);
    });

    test(`the signal ends ${name}`, async () => {
      const ended = new AbortController();
      const { easel, requests } = play((request: object, context) => {
        ended.abort();
        return silent(request, context);
      });
      await assert.rejects(open(easel, { signal: ended.signal }).next(), { code: Code.Canceled });
      assert.equal(requests.length, 1);
    });
  }

  test("watchMany yields each state once over all streams", async () => {
    const request = create(WatchGenerationsRequestSchema, {
      generationIds: ["gen_1", "gen_2"],
      filter: { modelId: "studio/haiku" },
      knownEtags: { gen_2: "e0" },
    });
    const before = clone(WatchGenerationsRequestSchema, request);
    const { easel, requests } = play<WatchGenerationsRequest, unknown>(
      told(update("e1", State.QUEUED), closing, failure(Code.Unavailable)),
      told(update("e2", State.DELETED, "gen_2"), failure(Code.Unavailable)),
      told(update("e3", State.SUCCEEDED)),
    );
    const delays: number[] = [];
    const etags: string[] = [];
    for await (const { etag } of easel.watchMany(request, { onRetry: (_, delay) => delays.push(delay) })) etags.push(etag);
    assert.deepEqual(etags, ["e1", "e2", "e3"]);
    const known = requests.map(({ knownEtags }) => knownEtags);
    assert.deepEqual(known, [{ gen_2: "e0" }, { gen_1: "e1", gen_2: "e0" }, { gen_1: "e1", gen_2: "e2" }]);
    assert.deepEqual(requests.map(({ filter }) => filter?.modelId), Array(3).fill("studio/haiku"));
    assert.ok(delays.length === 2 && delays[0]! >= 2000, String(delays));
    assert.deepEqual(request, before);
  });

  test("watchMany without names goes on after OK, and forgets what was deleted", async () => {
    const { easel, requests } = play<WatchGenerationsRequest, unknown>(
      told(update("e1", State.QUEUED), update("e2", State.QUEUED, "gen_2")),
      told(update("e3", State.DELETED, "gen_2")),
      failing(Code.NotFound),
    );
    const delays: number[] = [];
    const etags: string[] = [];
    await assert.rejects(async () => {
      for await (const { etag } of easel.watchMany({}, { onRetry: (_, delay) => delays.push(delay) })) etags.push(etag);
    }, { code: Code.NotFound });
    assert.deepEqual(etags, ["e1", "e2", "e3"]);
    assert.deepEqual(requests.map(({ knownEtags }) => knownEtags), [{}, { gen_1: "e1", gen_2: "e2" }, { gen_1: "e1" }]);
    assert.ok(delays.length === 2 && delays.every((delay) => delay >= 250 && delay < 750), String(delays)); // each update is progress
  });

  test("watchMany sends the etags of the 1000 that changed last", async () => {
    const knownEtags = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`gen_${n}`, "e0"]));
    const { easel, requests } = play<WatchGenerationsRequest, unknown>(
      told(...[0, 1000, 1001].map((n) => update("e1", State.QUEUED, `gen_${n}`)), failure(Code.Unavailable)),
      failing(Code.NotFound),
    );
    await assert.rejects(async () => {
      for await (const _ of easel.watchMany({ knownEtags }));
    }, { code: Code.NotFound });
    const known = requests[1]!.knownEtags;
    assert.equal(Object.keys(known).length, 1000);
    assert.deepEqual([0, 1, 2, 3, 1000, 1001].map((n) => known[`gen_${n}`]), ["e1", undefined, undefined, "e0", "e1", "e1"]);
  });

  test("watchMany repeats no state of the 10,000 that changed last", async () => {
    const knownEtags = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`gen_${n}`, "e1"]));
    const { easel } = play<WatchGenerationsRequest, unknown>(
      told(...[0, 10_000, 1, 9999, 0].map((n) => update("e1", State.QUEUED, `gen_${n}`)), failure(Code.NotFound)),
    );
    const ids: string[] = [];
    await assert.rejects(async () => {
      for await (const { generationId } of easel.watchMany({ knownEtags })) ids.push(generationId);
    }, { code: Code.NotFound });
    assert.deepEqual(ids, ["gen_10000", "gen_0"]); // which had fallen out
  });

  for (const [name, generationIds, ids] of [
    ["no etag of what is finished", [], ["gen_FAILED"]],
    ["the etag of each that is named", ["gen_1"], ["gen_DELETED", "gen_FAILED", "gen_REFUNDED", "gen_SUCCEEDED"]],
  ] as const) {
    test(`watchMany sends ${name}`, async () => {
      const states = [State.FAILED, State.SUCCEEDED, State.REFUNDED, State.DELETED];
      const { easel, requests } = play<WatchGenerationsRequest, unknown>(
        told(...states.map((state) => update("e1", state, `gen_${State[state]}`)), failure(Code.Unavailable)),
        failing(Code.NotFound),
      );
      await assert.rejects(async () => {
        for await (const _ of easel.watchMany({ generationIds: [...generationIds] }));
      }, { code: Code.NotFound });
      assert.deepEqual(Object.keys(requests[1]!.knownEtags).sort(), ids);
    });
  }

  test("watchMany takes no repeat for progress", async () => {
    const repeat = told(update("e1", State.QUEUED), failure(Code.Unavailable));
    const { easel } = play<WatchGenerationsRequest, unknown>(repeat, repeat, repeat, failing(Code.NotFound));
    const delays: number[] = [];
    const etags: string[] = [];
    await assert.rejects(async () => {
      for await (const { etag } of easel.watchMany({}, { onRetry: (_, delay) => delays.push(delay) })) etags.push(etag);
    }, { code: Code.NotFound });
    assert.deepEqual(etags, ["e1"]);
    assert.ok(delays.length === 3 && delays[2]! >= 1000, String(delays));
  });

  test("watchAccount yields each state once over all streams", async () => {
    const { easel, requests } = play<object, unknown>(
      told(account(500n, true), account(400n, false), failure(Code.Unavailable)),
      told(account(400n, true)), // OK is no goal
      told(account(300n, true), failure(Code.Unauthenticated)),
    );
    const balances: unknown[] = [];
    await assert.rejects(async () => {
      for await (const { balanceCents } of easel.watchAccount()) balances.push(balanceCents);
    }, { code: Code.Unauthenticated });
    assert.deepEqual(balances, [500n, 400n, 300n]);
    assert.equal(requests.length, 3);
  });

  test("watchAccount backs off though each stream begins with an account", async () => {
    const { easel } = play<object, unknown>(failing(Code.Unavailable), failing(Code.Unavailable), told(account(500n, true)));
    const delays: number[] = [];
    const ended = new AbortController();
    const onRetry = (_: unknown, delay: number) => delays.push(delay) === 5 && ended.abort();
    await assert.rejects(async () => {
      for await (const _ of easel.watchAccount({}, { signal: ended.signal, onRetry }));
    }, { code: Code.Unavailable });
    assert.ok(delays[2]! < 750 && delays[4]! >= 1000, String(delays)); // the first account of all is progress
  });

  test("run tells a render that came to nothing", async () => {
    const { easel } = play<object, unknown>(() => ({ generation: { generationId: "gen_1" } }), told(update("e1", State.REFUNDED)));
    await assert.rejects(easel.run(order), (error) => error instanceof FailedError && error.generation.state === State.REFUNDED);
  });

  test("download goes on where it broke off", async () => {
    const script = () =>
      play<DownloadGenerationRequest, unknown>(
        failing(Code.FailedPrecondition, "CONTENT_NOT_READY", 0),
        pieces(1500, undefined, failure(Code.Unavailable)),
        pieces(2500, undefined, failure(Code.Unavailable, "CONTENT_INTERRUPTED")),
        pieces(whole.length),
      );
    const { easel, requests } = script();
    const got: Uint8Array[] = [];
    await easel.download("gen_1", new Writable({ write: (data, _, done) => (got.push(data), done()) }));
    assert.deepEqual(new Uint8Array(Buffer.concat(got)), whole);
    const asked = requests.map(({ readOffset, etag }) => [Number(readOffset), etag]);
    assert.deepEqual(asked, [[0, ""], [0, ""], [1500, "bytes-1"], [2500, "bytes-1"]]);

    const directory = mkdtempSync(join(tmpdir(), "easel-"));
    const other = join(directory, "other");
    writeFileSync(other, "mine");
    symlinkSync(other, join(directory, "file.part")); // is not followed
    await script().easel.download("gen_1", join(directory, "file"));
    assert.deepEqual(readdirSync(directory).sort(), ["file", "file.part", "other"]);
    assert.equal(readFileSync(other, "utf8"), "mine");
    assert.deepEqual(new Uint8Array(readFileSync(join(directory, "file"))), whole);
    rmSync(directory, { recursive: true });
  });

  for (const [name, answer] of Object.entries({
    "another checksum": pieces(whole.length, (chunk) => (chunk.crc32c ^= 1)),
    "another place": pieces(whole.length, (chunk) => (chunk.offset += 1n)),
    "missing bytes": pieces(4990),
    "another digest": pieces(whole.length, (chunk) => (chunk.summary = { sha256: "0" })),
  })) {
    test(`download takes no bytes with ${name}`, async () => {
      const { easel, requests } = play<DownloadGenerationRequest, unknown>(answer);
      const directory = mkdtempSync(join(tmpdir(), "easel-"));
      await assert.rejects(easel.download("gen_1", join(directory, "file")), { code: Code.DataLoss });
      assert.deepEqual([readdirSync(directory), requests.length], [[], 1]);
      rmSync(directory, { recursive: true });
    });
  }
});
