// Tests of the client against a scripted server.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import * as http2 from "node:http2";
import * as net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { describe, test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, timestampDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createRouterTransport, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { BudgetExceeded, Damaged, Easel, EaselError, RenderFailed, Stopped, Timeout, version, type Hooks, type Order, type Render, type Watch } from "@easel-grpc/easel";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "@easel-grpc/easel/errors";
import {
  AccountService,
  GenerationSchema,
  GenerationService,
  State,
  type CreateGenerationRequest,
  type DownloadGenerationRequest,
  type DownloadGenerationResponseSchema,
  type ListGenerationsRequest,
  type WatchEventsRequest,
  type WatchEventsResponseSchema,
  type WatchGenerationRequest,
  type WatchGenerationsRequest,
  type WatchGenerationsResponseSchema,
} from "@easel-grpc/easel/v1";

type Watched = MessageInitShape<typeof WatchGenerationsResponseSchema>;
type Chunk = MessageInitShape<typeof DownloadGenerationResponseSchema>["chunk"] & { offset: bigint; data: Uint8Array; crc32c: number };
type Answer<I, O> = (request: I, context: HandlerContext) => O;

const order = ["studio/haiku", { prompt: "rain" }, { key: "key-1" }] as const;
const whole = new Uint8Array(5000).map((_, n) => n % 251);

/**
 * Returns a client, the requests that it has sent, and its hooks. The n-th call receives the n-th answer. Further calls receive
 * the last answer.
 */
function play<I extends object, O>(...answers: Answer<I, O>[]) {
  const requests: I[] = [];
  const hooks: Hooks = {};
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
      watchEvents: stream,
      downloadGeneration: stream,
      listGenerations: (request, context) => next(request, context) as never,
    });
    service(AccountService, { listUsage: (request, context) => next(request, context) as never });
  });
  const easel = new Easel({
    transport,
    onRetry: (error, delay) => hooks.onRetry?.(error, delay),
    onHeartbeat: (heartbeat) => hooks.onHeartbeat?.(heartbeat),
    onKey: (key) => hooks.onKey?.(key),
    logger: { info: (line) => hooks.logger?.info(line), warn: (line) => hooks.logger?.warn(line) },
  });
  return { easel, requests, hooks };
}

function failure(code: Code, why = "", delaySeconds?: number, outcome = "unknown", more: Record<string, string> = {}): ConnectError {
  return new ConnectError("scripted", code, undefined, [
    ...(why ? [{ desc: ErrorInfoSchema, value: { domain: "easel", reason: why, metadata: { order_outcome: outcome, ...more } } }] : []),
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

const closing: Watched = { event: { case: "closing", value: { retryDelay: { seconds: 2n } } } };

/** An update that every kind of watch accepts. */
const anyUpdate: Watched = {
  event: { case: "update", value: { generation: { generationId: "gen_1", etag: "e1", state: State.SUCCEEDED } } },
};

type Open = (easel: Easel, options?: { signal?: AbortSignal; heartbeatMs?: number }) => Watch<object>;
const watches: Record<string, Open> = {
  watch: (easel, options) => easel.watch("gen_1", options),
  watchMany: (easel, options) => easel.watchMany(["gen_1"], options),
};

/** Returns the name that the client's errors use for a code. */
const named = (code: Code) => Code[code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase().replace("CANCELED", "CANCELLED");

const final = [Code.NotFound, Code.Unauthenticated, Code.PermissionDenied, Code.InvalidArgument, Code.FailedPrecondition, Code.OutOfRange, Code.Unimplemented];

/** Returns an answer that sends the bytes from the requested offset up to the offset `to`, and then throws `end` if it is set. */
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

test("a port without TLS is named with a remedy", { timeout: 20_000 }, async (t) => {
  const server = http2.createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => server.close());
  const easel = new Easel({ address: `https://127.0.0.1:${(server.address() as net.AddressInfo).port}`, apiKey: "" });
  await assert.rejects(easel.account({ attempts: 1 }), /server does not speak TLS; use http:\/\/ in the address$/);
});

test("an address that fails or is silent is named", { timeout: 20_000 }, async (t) => {
  const [closed, silent] = [net.createServer(), net.createServer((wire) => void wires.add(wire))] as const;
  const wires = new Set<net.Socket>();
  for (const server of [closed, silent]) await once(server.listen(0, "127.0.0.1"), "listening");
  const [toClosed, toSilent] = [closed, silent].map((server) => `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`) as [string, string];
  closed.close();
  t.after(() => [...wires].map((wire) => wire.destroy()) && silent.close());
  const grpc = { pingIntervalMs: 100, pingTimeoutMs: 100 };
  const call = (address: string, limits: object) => new Easel({ address, apiKey: "", grpc }).account(limits);
  await assert.rejects(call(toClosed, { attempts: 1 }), ({ message }: Error) => message.startsWith(`UNAVAILABLE: connection to ${toClosed} failed: connect ECONNREFUSED`));
  await assert.rejects(call(toSilent, { attempts: 1 }), { name: "Unavailable", message: `UNAVAILABLE: ${toSilent} does not respond` });
  await assert.rejects(call(toSilent, { timeoutMs: 50 }), { name: "Timeout", message: `timed out; last error: DEADLINE_EXCEEDED: ${toSilent} does not respond` });
});

test("calls continue after a connection was lost during a ping", { timeout: 20_000 }, async (t) => {
  const routes = ({ service }: ConnectRouter) => service(GenerationService, { getGeneration: () => ({ generation: { costCents: 5n } }) });
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
  const address = `http://127.0.0.1:${(proxy.address() as net.AddressInfo).port}`;
  const easel = new Easel({ address, apiKey: "", grpc: { pingIntervalMs: 50, pingTimeoutMs: 200 } });
  const cost = async () => (await easel.get("gen_1")).costCents;

  assert.equal(await cost(), 5);
  await sleep(100);
  frozen = true;
  const first = cost(); // this call waits for the response to Connect's ping
  await sleep(50);
  for (const wire of wires) wire.end();
  frozen = false;
  assert.equal(await first, 5);
  await sleep(100);
  assert.equal(await cost(), 5);
});

/** Servers at several addresses of one host name, all on the same port. */
class Site {
  readonly asked: string[] = [];
  readonly lookup: net.LookupFunction = (_name, _options, found) => found(null, this.addresses.map((address) => ({ address, family: 4 })));
  readonly wires = new Set<net.Socket>();
  addresses: string[] = [];
  port = 0;
  #servers = new Map<string, net.Server>();

  constructor(t: TestContext, readonly tls?: { key: string; cert: string }) {
    t.after(() => [...this.#servers.keys()].map((address) => this.stop(address)));
  }

  /** Starts a server at an address. If says is "nothing", the server accepts connections but sends nothing. */
  async serve(address: string, says: "answers" | "nothing" = "answers") {
    const routes = ({ service }: ConnectRouter) => service(GenerationService, { getGeneration: () => (this.asked.push(address), { generation: {} }) });
    const answers = connectNodeAdapter({ routes });
    const server = says === "nothing" ? net.createServer() : this.tls ? http2.createSecureServer(this.tls, answers) : http2.createServer(answers);
    server.on("connection", (wire: net.Socket) => this.wires.add(wire.on("error", () => undefined).on("close", () => this.wires.delete(wire))));
    await once(server.listen(this.port, address), "listening");
    this.port = (server.address() as net.AddressInfo).port;
    this.#servers.set(address, server);
  }

  stop(address: string) {
    this.#servers.get(address)?.close();
    for (const wire of this.wires) if (wire.localAddress === address) wire.destroy();
  }

  client(options: object = {}) {
    const grpc = { nodeOptions: { lookup: this.lookup, ...(this.tls && { ca: this.tls.cert }), ...options } };
    return new Easel({ address: `${this.tls ? "https" : "http"}://easel.test:${this.port}`, apiKey: "", grpc });
  }

  /** Makes four calls and returns the addresses that respond to them. */
  async four(easel: Easel) {
    this.asked.length = 0;
    for (let n = 0; n < 4; n++) await easel.get("gen_1");
    return this.asked.toSorted();
  }
}

/** Reports whether a call takes more than 0.9 s. The call is aborted after two seconds. */
async function isSlow(easel: Easel) {
  const began = performance.now();
  await easel.get("gen_1", { signal: AbortSignal.timeout(2000) }).catch((error: unknown) => assert.ok(error instanceof Timeout));
  return performance.now() - began > 900;
}

function certificate() {
  const made = execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "-", "-subj", "/CN=easel.test", "-addext", "subjectAltName=DNS:easel.test"], { encoding: "utf8", stdio: "pipe" });
  return { key: made, cert: made };
}

const [one, other, third] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"] as const;

test("calls go to each address of a name, and not to a dead one", { timeout: 20_000 }, async (t) => {
  const site = new Site(t);
  await site.serve(one);
  await site.serve(other);
  site.addresses = [one, other];
  const easel = site.client();
  assert.deepEqual(await site.four(easel), [one, one, other, other]);
  site.stop(other);
  assert.deepEqual(await site.four(easel), [one, one, one, one]);
});

for (const tls of [undefined, certificate()]) {
  const over = tls ? " over TLS" : "";

  test("an address that accepts connections and does not respond is tried last, and again after ten seconds" + over, { timeout: 30_000 }, async (t) => {
    const site = new Site(t, tls);
    await site.serve(one);
    await site.serve(other, "nothing");
    site.addresses = [one, other];
    const easel = site.client();
    const slow: boolean[] = [];
    for (let n = 0; n < 10; n++) slow.push(await isSlow(easel));
    assert.equal(slow.filter(Boolean).length, 1, String(slow));

    site.stop(other);
    await site.serve(other);
    assert.deepEqual(await site.four(easel), [one, one, one, one]);
    const now = performance.now.bind(performance);
    t.mock.method(performance, "now", () => now() + 10_000);
    assert.equal((await site.four(easel)).includes(other), true);
  });

  test("a call uses an address that was added to the name" + over, { timeout: 30_000 }, async (t) => {
    const site = new Site(t, tls);
    await site.serve(one);
    await site.serve(other);
    site.addresses = [one, other];
    const easel = site.client();
    await site.four(easel);
    for (const address of site.addresses) {
      site.stop(address);
      await site.serve(address, "nothing");
    }
    await site.serve(third);
    site.addresses = [third];
    const now = performance.now.bind(performance);
    t.mock.method(performance, "now", () => now() + 1000);
    for (let n = 0; await isSlow(easel); n++) assert.ok(n < 4, "the call uses the previous addresses of the name");
    assert.deepEqual(await site.four(easel), [third, third, third, third]);
  });
}

test("a cancelled call does not count against a replica", { timeout: 20_000 }, async (t) => {
  const site = new Site(t);
  await site.serve(one);
  await site.serve(other);
  site.addresses = [one, other];
  const easel = site.client();
  await site.four(easel);
  await assert.rejects(easel.get("gen_1", { signal: AbortSignal.abort() }));
  await assert.rejects(easel.get("gen_1", { signal: AbortSignal.timeout(1) }));
  assert.deepEqual(new Set(await site.four(easel)), new Set([one, other]));
});

test("an address that was removed from the name keeps no connection, and the address family is resolved", { timeout: 20_000 }, async (t) => {
  const site = new Site(t);
  for (const address of [one, other, third]) await site.serve(address);
  site.addresses = [one];
  const options: object[] = [];
  const lookup: net.LookupFunction = (name, asked, found) => (options.push(asked), site.lookup(name, asked, found));
  const easel = site.client({ lookup, family: 4 });
  let ahead = 0;
  const now = performance.now.bind(performance);
  t.mock.method(performance, "now", () => now() + ahead);
  for (const address of [other, third, one, other]) {
    assert.equal((await site.four(easel)).includes(address), false);
    site.addresses = [address];
    ahead += 31_000;
    await easel.get("gen_1");
    while (site.wires.size > 1) await sleep(10);
  }
  assert.ok(options.every((asked) => "family" in asked && asked.family === 4));
});

/**
 * Starts a server that rejects orders before it has received them, sends the second state of a watch after `more` is resolved,
 * and does not implement AccountService.
 */
async function rejecting(t: TestContext, more: Promise<void>) {
  const routes = ({ service }: ConnectRouter) => service(GenerationService, {
    watchGeneration: async function* () {
      yield update("e1", State.RUNNING) as never;
      await more;
      yield update("e2", State.SUCCEEDED) as never;
    },
  });
  const others = connectNodeAdapter({ routes });
  const server = http2.createServer((request, response) => {
    if (!request.url.endsWith("/CreateGeneration")) return others(request, response);
    request.stream.on("error", () => undefined).respond({ ":status": 200, "content-type": "application/grpc", "grpc-status": String(Code.InvalidArgument) }, { endStream: true });
    request.stream.close(http2.constants.NGHTTP2_NO_ERROR);
  });
  const sessions = new Set<http2.ServerHttp2Session>();
  server.on("session", (session) => void sessions.add(session.on("close", () => sessions.delete(session))));
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => [...sessions].map((session) => session.destroy()) && server.close());
  return { address: `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`, sessions };
}

const large = { prompt: "x".repeat(12_000_000) };

test("calls continue after large orders that the server rejects early", { timeout: 30_000 }, async (t) => {
  let finish = () => {};
  const { address, sessions } = await rejecting(t, new Promise((resolve) => (finish = resolve)));
  const easel = new Easel({ address, apiKey: "" });
  const watch = easel.watch("gen_1")[Symbol.asyncIterator]();
  assert.equal((await watch.next()).value?.etag, "e1");
  for (let n = 0; n < 3; n++) {
    await assert.rejects(easel.order("studio/haiku", large, { key: "key-1", timeoutMs: 5000 }), { name: "InvalidRequest", code: "INVALID_ARGUMENT" });
    await assert.rejects(easel.account({ attempts: 1, timeoutMs: 5000 }), { code: "UNIMPLEMENTED" });
  }
  while (sessions.size > 2) await sleep(10); // waits until only the sessions of the watch and of the last call are open
  finish();
  assert.equal((await watch.next()).value?.etag, "e2");
});

test("an invalid address is rejected immediately", () => {
  for (const address of ["", "easel", ":1", "easel:", "easel:x", "easel:70000", "ftp://easel:1", "http://", "https://easel/path", "dns:///easel:1", "u:secret@easel:1", "a b:1"]) {
    assert.throws(() => new Easel({ address }), ({ message }: Error) => /^the address must be host:port/.test(message) && !message.includes("secret"));
  }
  for (const address of ["localhost:1", "[::1]:1", "easel.example:1", "https://easel.example", "http://localhost:1/", "localhost:1/", " HTTP://localhost:1 ", "easel_app:1"]) new Easel({ address, apiKey: "secret\n" });
});

test("an API key is sent to another host without TLS only if that is allowed", () => {
  const place = { address: "http://easel.example", apiKey: "secret" };
  for (const address of [place.address, "HTTP://easel.example:1"]) {
    const shown = /would be sent to easel.example without TLS.*EASEL_ALLOW_PLAINTEXT=true/;
    assert.throws(() => new Easel({ ...place, address }), ({ message }: Error) => shown.test(message) && !message.includes("secret"));
  }
  process.env["EASEL_ALLOW_PLAINTEXT"] = "true";
  new Easel(place);
  delete process.env["EASEL_ALLOW_PLAINTEXT"];
  new Easel({ ...place, allowPlaintext: true });
  new Easel({ ...place, apiKey: "" });
  assert.throws(() => new Easel({ apiKey: "secret\nother" }), ({ message }: Error) => /another invalid character/.test(message) && !message.includes("secret"));
});

test("a client does not show its API key", () => {
  const easel = new Easel({ address: "localhost:1", apiKey: "secret" });
  assert.doesNotMatch(inspect(easel, { depth: Infinity, showHidden: true }) + JSON.stringify(easel), /secret/);
});

test("the version matches package.json", () => {
  const text = readFileSync(new URL(import.meta.resolve("@easel-grpc/easel")).pathname.replace("src/easel.js", "package.json"), "utf8");
  assert.equal((JSON.parse(text) as { version: string }).version, version);
});

describe("a client", { concurrency: true, timeout: 30_000 }, () => {
  test("order retries with the same key until its outcome is known", async () => {
    const { easel, requests, hooks } = play<CreateGenerationRequest, unknown>(
      failing(Code.Unavailable),
      failing(Code.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", 2),
      failing(Code.Aborted, "SUBMISSION_IN_PROGRESS", 1),
      failing(Code.Unavailable, "A_NEWER_ONE"),
      () => ({ generation: { generationId: "gen_1" }, replayed: true }),
    );
    const delays: number[] = [];
    hooks.onRetry = (_, delay) => delays.push(delay);
    const placed = await easel.order("studio/haiku", { prompt: "rain" }, { key: 7, maxCostCents: 0, expire: new Date("2100-01-01"), labels: { project: "calendar" } });
    assert.deepEqual([placed.generationId, placed.key, placed.replayed], ["gen_1", "7", true]);
    assert.deepEqual(requests.map(({ idempotencyKey }) => idempotencyKey), Array(5).fill("7"));
    const { modelId, inputsJson, maxCostCents, expireTime, labels } = requests[0]!;
    assert.deepEqual(expireTime && timestampDate(expireTime), new Date("2100-01-01"));
    assert.deepEqual([modelId, inputsJson, maxCostCents, labels], ["studio/haiku", '{"prompt":"rain"}', 0n, { project: "calendar" }]);
    assert.ok(delays.length === 4 && delays[0]! < 1000 && delays[1]! >= 2000 && delays[2]! >= 1000, String(delays));
  });

  for (const [code, why, outcome, kind] of [
    [Code.ResourceExhausted, "BUDGET_EXCEEDED", "not_placed", "BudgetExceeded"],
    [Code.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", "unknown", "OutcomeUnknown"], // not retried, because it has no RetryInfo
    [Code.FailedPrecondition, "PRICE_ABOVE_LIMIT", "not_placed_by_this_call", "PriceAboveLimit"],
    [Code.FailedPrecondition, "ORDER_EXPIRED", "unknown", "OrderExpired"],
    [Code.Internal, "UPSTREAM_REDIRECT_REFUSED", "unknown", "ServerFault"],
  ] as const) {
    test(`order gives up after ${why}`, async () => {
      const { easel, requests } = play(failing(code, why, undefined, outcome));
      await assert.rejects(easel.order(...order), { name: kind, code: named(code), reason: why, orderOutcome: outcome, key: "key-1", isRetryable: false });
      assert.equal(requests.length, 1);
    });
  }

  test("an expire time that is not a valid Date is rejected before a key is made", async () => {
    const { easel, requests } = play();
    for (const expire of [new Date("tomorrow"), 5, "10m"] as Date[]) {
      await assert.rejects(easel.order("studio/haiku", { prompt: "rain" }, { expire }), new TypeError("expire must be a valid Date"));
    }
    assert.equal(requests.length, 0);
  });

  test("an error has its fields in types", async () => {
    const more = { price_cents: "7", remaining_cents: "5", window: "day", reset_time: "2026-11-27T00:00:00Z", label_name: "project", label_value: "apollo" };
    const { easel } = play(failing(Code.ResourceExhausted, "BUDGET_EXCEEDED", undefined, "not_placed", more));
    const error = await easel.order(...order).catch((caught: unknown) => caught);
    assert.ok(error instanceof BudgetExceeded && error instanceof EaselError);
    assert.deepEqual([error.priceCents, error.remainingCents, error.window, error.resetTime], [7, 5, "day", new Date("2026-11-27")]);
    assert.deepEqual([error.labelName, error.labelValue], ["project", "apollo"]);
    const field = { field: "model_id", description: "unknown" };
    const bad = new ConnectError("scripted", Code.InvalidArgument, undefined, [{ desc: BadRequestSchema, value: { fieldViolations: [field] } }]);
    const { fieldViolations } = (await play(() => Promise.reject(bad)).easel.order(...order).catch((caught: unknown) => caught)) as EaselError;
    assert.deepEqual(fieldViolations.map(({ field, description }) => ({ field, description })), [field]);
  });

  test("order reports a generated key before it is sent", async () => {
    const { easel, requests, hooks } = play<CreateGenerationRequest, unknown>(failing(Code.NotFound));
    const made: string[] = [];
    hooks.onKey = async (key) => {
      await sleep(10);
      assert.equal(requests.length, 0);
      made.push(key);
    };
    const error = await easel.order("studio/haiku", "{}").catch((caught: unknown) => caught);
    assert.deepEqual([(error as EaselError).key, requests[0]!.idempotencyKey], [made[0], made[0]]);
    for (const none of ["", undefined, null]) await assert.rejects(easel.order("studio/haiku", "{}", { key: none as string }), TypeError);
    await assert.rejects(easel.order("studio/haiku", { size: NaN }, { key: "key-1" }), TypeError);
    assert.equal(requests.length, 1);
  });

  test("inputs that no server accepts are not sent", async () => {
    const { easel, requests } = play<CreateGenerationRequest, unknown>(() => ({ generation: { generationId: "gen_1" } }));
    const error = { name: "InvalidRequest", code: "INVALID_ARGUMENT", reason: "INVALID_REQUEST", orderOutcome: "not_placed_by_this_call", key: "key-1" };
    const largest = `{"prompt": "${"é".repeat((16 << 19) - 7)}"}`;
    assert.equal(Buffer.byteLength(largest), 16 << 20);
    await assert.rejects(easel.order("studio/haiku", largest + " ", { key: "key-1" }), error);
    assert.equal(requests.length, 0);
    await easel.order("studio/haiku", largest, { key: "key-1" });
  });

  test("a printed error has its key and no bytes, and values are JSON", async () => {
    const { easel } = play<object, unknown>(failing(Code.InvalidArgument, "INVALID_REQUEST"), () => ({ generation: { generationId: "gen_1", costCents: 5n } }));
    const error = await easel.order(...order).catch((caught: unknown) => caught);
    assert.match(inspect(error), /^InvalidRequest: INVALID_REQUEST: scripted \(idempotency key key-1\)\n/);
    assert.doesNotMatch(inspect(error), /Uint8Array|ConnectError/);
    assert.equal((error as EaselError).raw?.details.length, 1);
    const placed = await easel.order(...order);
    assert.equal(placed.render.raw.costCents, 5n);
    assert.equal((JSON.parse(JSON.stringify(placed)) as Order).render.costCents, 5);
  });

  test("a call that is retried for five seconds is logged, and its recovery", async () => {
    for (const [reason, delay, lines] of [["LEDGER_UNAVAILABLE", 5, 2], ["", 1, 0]] as const) {
      const { easel, hooks } = play<object, unknown>(failing(Code.Unavailable, reason, delay), () => ({ generation: { generationId: "gen_1" } }));
      const found: string[] = [];
      hooks.logger = { info: (line) => found.push(line), warn: (line) => found.push(line) };
      await easel.order(...order);
      assert.equal(found.length, lines);
      if (lines > 0) assert.match(found.join("\n"), /^call still failing: method=CreateGeneration address=\(custom transport\) failing_for=\S+s retry_in=\S+s error=LEDGER_UNAVAILABLE: scripted \(idempotency key key-1\)\ncall recovered: method=CreateGeneration after=\S+s$/);
    }
  });

  test("a call ends after its attempts and after its time", async () => {
    for (const limits of [{ attempts: 2 }, { timeoutMs: 1000 }]) {
      const { easel, requests } = play(failing(Code.Unavailable));
      const end = limits.attempts ? "Unavailable" : "Timeout";
      await assert.rejects(easel.watch("gen_1", limits).next(), { name: end });
      await assert.rejects(easel.order("studio/haiku", "{}", { key: "key-1", ...limits }), { name: end });
      await assert.rejects(easel.list(limits).next(), { name: end });
      assert.ok(requests.length >= 6 && requests.length <= 9, String(requests.length));
    }
    const { easel } = play((_: object, { signal }: HandlerContext) => sleep(60_000, undefined, { signal }));
    await assert.rejects(easel.list({ timeoutMs: 500 }).next(), { name: "Timeout", code: "DEADLINE_EXCEEDED" });
  });

  test("the signal ends an order with its known outcome", async () => {
    const { easel, hooks } = play(failing(Code.Unavailable, "SUBMISSION_OUTCOME_UNKNOWN", 600));
    const ended = new AbortController();
    hooks.onRetry = () => ended.abort();
    await assert.rejects(easel.order("studio/haiku", "{}", { key: "key-1", signal: ended.signal }), (error) => {
      assert.ok(error instanceof Stopped);
      const { code, reason, orderOutcome, key, isRetryable, retryAfter } = error;
      assert.deepEqual([code, reason, orderOutcome, key, isRetryable, retryAfter], ["CANCELLED", "SUBMISSION_OUTCOME_UNKNOWN", "unknown", "key-1", false, 600_000]);
      return true;
    });
  });

  test("an aborted order may exist, whatever an earlier response reported", async () => {
    const { easel, requests } = play(failing(Code.Unavailable, "UPSTREAM_UNAVAILABLE", undefined, "not_placed"), (_, { signal }) => sleep(60_000, undefined, { signal }));
    const cut = { name: "Timeout", reason: "UPSTREAM_UNAVAILABLE", orderOutcome: "unknown", key: "key-1", isRetryable: false };
    await assert.rejects(easel.order("studio/haiku", "{}", { key: "key-1", signal: AbortSignal.timeout(6000) }), cut);
    assert.equal(requests.length, 2);
    const early = play(failing(Code.Unavailable, "UPSTREAM_UNAVAILABLE", 600, "not_placed")).easel;
    await assert.rejects(early.order("studio/haiku", "{}", { key: "key-1", signal: AbortSignal.timeout(500) }), { ...cut, orderOutcome: "not_placed" });
  });

  test("an order that may exist is not reported as not placed", async () => {
    for (const [last, known] of [["not_placed_by_this_call", "unknown"], ["not_placed", "not_placed"]]) {
      const { easel } = play(failing(Code.Aborted, "SUBMISSION_IN_PROGRESS"), failing(Code.InvalidArgument, "INVALID_REQUEST", undefined, last));
      await assert.rejects(easel.order(...order), { name: "InvalidRequest", orderOutcome: known });
    }
  });

  test("a read ends after its attempts", async () => {
    const { easel, requests } = play(failing(Code.Unavailable, "LEDGER_UNAVAILABLE"));
    await assert.rejects(easel.list().next(), { name: "Unavailable", isRetryable: true });
    assert.equal(requests.length, 5);
  });

  test("a delay of more than an hour is not awaited", async () => {
    const { easel, requests } = play(failing(Code.Unavailable, "UPSTREAM_UNAVAILABLE", 3_000_000));
    await assert.rejects(easel.order(...order), { name: "Unavailable", retryAfter: 3_000_000_000 });
    await assert.rejects(easel.watch("gen_1").next(), { name: "Unavailable", generationId: "gen_1" });
    assert.equal(requests.length, 2);
    const ago = play<object, unknown>(failing(Code.InvalidArgument, "", -5));
    await assert.rejects(ago.easel.order(...order), { isRetryable: false, retryAfter: undefined });
  });

  test("a timeout reports the cause from the last heartbeat", async () => {
    const heartbeat: Watched = { event: { case: "heartbeat", value: { upstreamCondition: 3, lastError: "refused" } } };
    const { easel, hooks } = play<object, unknown>(async function* (request: object, context: HandlerContext) {
      yield heartbeat;
      yield* silent(request, context);
    });
    let heard = 0;
    hooks.onHeartbeat = () => heard++;
    const error = await easel.watch("gen_1", { signal: AbortSignal.timeout(200) }).next().catch((caught: unknown) => caught);
    assert.ok(error instanceof Timeout);
    assert.deepEqual([error.heartbeat?.upstreamCondition, error.heartbeat?.lastError, heard], ["UNREACHABLE", "refused", 1]);
    assert.match(error.message, /; last heartbeat: UNREACHABLE refused$/);
  });

  test("lists go over all pages", async () => {
    const pages = [() => ({ generations: [{ etag: "1" }, { etag: "2" }], nextPageToken: "next" }), failing(Code.Unavailable), () => ({ generations: [{ etag: "3" }] })];
    const { easel, requests } = play<ListGenerationsRequest, unknown>(...pages);
    const etags: string[] = [];
    for await (const { etag } of easel.list({ model: "studio/haiku", states: ["FAILED"], labels: { a: "b" } })) etags.push(etag);
    assert.deepEqual(etags, ["1", "2", "3"]);
    assert.deepEqual(requests.map(({ pageToken }) => pageToken), ["", "next", "next"]);
    const { modelId, states, labels } = requests[2]!.filter!;
    assert.deepEqual([modelId, states, labels], ["studio/haiku", [State.FAILED], { a: "b" }]);
    const used = play<object, unknown>(() => ({ rows: [{ modelId: "studio/haiku", costCents: 2n }] }));
    for await (const { modelId, costCents } of used.easel.usage({ start: new Date(0), by: ["MODEL"] })) assert.deepEqual([modelId, costCents], ["studio/haiku", 2]);
    assert.equal(used.requests.length, 1);
  });

  test("a value has every field of the contract in the types of the language", async () => {
    const { easel } = play<object, unknown>(() => ({
      generation: { state: 99 as State, costCents: 0n, result: { case: "text", value: { text: "rain" } }, createTime: { seconds: 1n }, inputs: { size: 2 }, labels: { a: "b" } },
    }));
    const { render } = await easel.order(...order);
    assert.deepEqual([render.state, render.costCents, render.text, render.file], ["unknown(99)", 0, "rain", undefined]);
    assert.deepEqual([render.createTime, render.terminalTime, render.inputs, render.labels], [new Date(1000), undefined, { size: 2 }, { a: "b" }]);
    const fields = (GenerationSchema as DescMessage).fields.map(({ localName }) => localName);
    const all: Required<Render> = { ...render, file: { contentType: "", raw: undefined as never }, terminalTime: new Date(0), observeTime: new Date(0), typicalRemaining: 0, upstreamFields: {} } as never;
    assert.deepEqual(Object.keys(all).filter((name) => !["raw", "typicalRemaining"].includes(name)).sort(), fields.sort());
  });

  test("watch yields each state once over all streams", async () => {
    const { easel, requests, hooks } = play<WatchGenerationRequest, AsyncIterable<Watched>>(
      told(update("e1", State.QUEUED), closing, failure(Code.Unavailable, "SERVER_DRAINING", 1)),
      silent,
      told({ event: { case: "heartbeat", value: { typicalRemaining: { seconds: 3n } } } }, update("e2", State.SUCCEEDED)),
    );
    const delays: number[] = [];
    const states: unknown[] = [];
    let heartbeats = 0;
    hooks.onRetry = (_, delay) => delays.push(delay);
    hooks.onHeartbeat = () => heartbeats++;
    for await (const { state, typicalRemaining } of easel.watch("gen_1", { heartbeatMs: 100 })) states.push(state, typicalRemaining);
    assert.deepEqual(states, ["QUEUED", undefined, "SUCCEEDED", 3000]);
    assert.deepEqual(requests.map(({ knownEtag }) => knownEtag), ["", "e1", "e1"]);
    assert.ok(heartbeats === 1 && delays.length === 2 && delays[0]! >= 2000, String(delays));
  });

  for (const [name, open] of Object.entries(watches)) {
    for (const code of Object.values(Code).filter((code): code is Code => typeof code === "number")) {
      test(`${name} ${final.includes(code) ? "stops" : "continues"} after ${Code[code]}`, async () => {
        const { easel, requests } = play(failing(code), told(anyUpdate));
        const watched = open(easel).next();
        await (final.includes(code) ? assert.rejects(watched, { code: named(code) }) : watched);
        assert.equal(requests.length, final.includes(code) ? 1 : 2);
      });
    }

    for (const heartbeatMs of [-1000, 0, 300]) {
      test(`${name} ends where the server refuses ${heartbeatMs} ms between heartbeats`, async () => {
        const { easel, requests, hooks } = play<WatchGenerationRequest, unknown>(async function* () {
          await sleep(1000);
          throw failure(Code.InvalidArgument);
        });
        hooks.onRetry = (error) => assert.fail(error);
        await assert.rejects(open(easel, { heartbeatMs }).next(), { name: "InvalidRequest" });
        assert.deepEqual(requests.map(({ heartbeatInterval }) => heartbeatInterval), [durationFromMs(heartbeatMs)]);
      });
    }

    test(`${name} gives up a silent stream`, async () => {
      const { easel, hooks } = play<object, unknown>(silent, told(anyUpdate));
      const errors: string[] = [];
      hooks.onRetry = ({ message }) => errors.push(message);
      const { done } = await open(easel, { heartbeatMs: 300 }).next();
      assert.ok(!done);
      assert.match(errors[0]!, /no message for 3 s/);
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
      await assert.rejects(open(easel, { signal: ended.signal }).next(), { code: "CANCELLED" });
      assert.equal(requests.length, 1);
    });

    test(`${name} ends without an error when it is stopped`, async () => {
      const { easel, requests } = play(async function* (request: object, context: HandlerContext) {
        yield anyUpdate;
        yield* silent(request, context);
      });
      const watch = open(easel);
      let states = 0;
      for await (const _ of watch) if (++states === 1) setTimeout(() => watch.stop(), 10);
      assert.deepEqual([states, requests.length], [1, 1]);
    });
  }

  test("watchMany yields each state once over all streams", async () => {
    const { easel, requests, hooks } = play<WatchGenerationsRequest, unknown>(
      told(update("e1", State.QUEUED), closing, failure(Code.Unavailable)),
      told(update("e2", State.DELETED, "gen_2"), failure(Code.Unavailable)),
      told(update("e3", State.SUCCEEDED)),
    );
    const delays: number[] = [];
    const etags: string[] = [];
    const seen = { gen_2: "e0" };
    hooks.onRetry = (_, delay) => delays.push(delay);
    for await (const { etag } of easel.watchMany(["gen_1", { generationId: "gen_2" }], { model: "studio/haiku", knownEtags: seen })) etags.push(etag);
    assert.deepEqual(etags, ["e1", "e2", "e3"]);
    const known = requests.map(({ knownEtags }) => knownEtags);
    assert.deepEqual(known, [{ gen_2: "e0" }, { gen_1: "e1", gen_2: "e0" }, { gen_1: "e1", gen_2: "e2" }]);
    assert.deepEqual(requests.map(({ filter, generationIds }) => [filter?.modelId, ...generationIds]), Array(3).fill(["studio/haiku", "gen_1", "gen_2"]));
    assert.ok(delays.length === 2 && delays[0]! >= 2000, String(delays));
    assert.deepEqual(seen, { gen_2: "e0" });
  });

  test("events continue after the last message", async () => {
    type Sent = MessageInitShape<typeof WatchEventsResponseSchema>;
    const told = (...messages: (Sent | ConnectError)[]) =>
      async function* () {
        for (const message of messages) {
          if (message instanceof ConnectError) throw message;
          yield message;
        }
      };
    const failed: Sent = { message: { case: "event", value: { eventId: "a", generation: { generationId: "gen_1", state: State.FAILED } } }, resumeToken: "t1" };
    const heartbeat: Sent = { message: { case: "heartbeat", value: {} }, resumeToken: "t2" };
    const budget: Sent = { message: { case: "event", value: { eventId: "b", budget: { limitCents: 100n } } }, resumeToken: "t3" };
    const asked: string[] = [];
    const noted = (answer: () => AsyncIterable<Sent>) => (request: WatchEventsRequest) => {
      asked.push(request.resumeToken);
      return answer();
    };
    const { easel, requests } = play<WatchEventsRequest, AsyncIterable<Sent>>(
      noted(told(failed, heartbeat, failure(Code.Unavailable))),
      noted(told(budget)),
      noted(told(failure(Code.OutOfRange, "RESUME_TOKEN_EXPIRED"))),
    );
    const seen: unknown[] = [];
    const reading = async () => {
      for await (const event of easel.events({ resumeToken: "t0", start: new Date(1000), types: ["easel.generation.failed"], owner: "studio" }))
        seen.push([event.eventId, event.render?.generationId, event.budget?.limitCents, event.resumeToken]);
    };
    await assert.rejects(reading(), { reason: "RESUME_TOKEN_EXPIRED" });
    assert.deepEqual(seen, [
      ["a", "gen_1", undefined, "t1"],
      ["b", undefined, 100, "t3"],
    ]);
    assert.deepEqual(asked, ["t0", "t2", "t3"]);
    assert.equal(requests[0]?.startTime?.seconds, 1n);
    assert.deepEqual([requests[0]?.filter?.types, requests[0]?.filter?.owner], [["easel.generation.failed"], "studio"]);
  });

  test("watchMany rejects a string instead of ids", () => {
    assert.throws(() => play().easel.watchMany("gen_1"), /for one ID, use watch/);
  });

  test("watchMany without ids continues after OK, and forgets deleted renders", async () => {
    const { easel, requests, hooks } = play<WatchGenerationsRequest, unknown>(
      told(update("e1", State.QUEUED), update("e2", State.QUEUED, "gen_2")),
      told(update("e3", State.DELETED, "gen_2")),
      failing(Code.NotFound),
    );
    const delays: number[] = [];
    hooks.onRetry = (_, delay) => delays.push(delay);
    const etags: string[] = [];
    await assert.rejects(async () => {
      for await (const { etag } of easel.watchMany()) etags.push(etag);
    }, { name: "NotFound" });
    assert.deepEqual(etags, ["e1", "e2", "e3"]);
    assert.deepEqual(requests.map(({ knownEtags }) => knownEtags), [{}, { gen_1: "e1", gen_2: "e2" }, { gen_1: "e1" }]);
    assert.ok(delays.length === 2 && delays.every((delay) => delay >= 250 && delay < 750), String(delays)); // each update resets the back-off
  });

  test("watchMany without ids sends the etags of the 1000 that changed last", async () => {
    const knownEtags = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`gen_${n}`, "e0"]));
    const { easel, requests } = play<WatchGenerationsRequest, unknown>(
      told(...[0, 1000, 1001].map((n) => update("e1", State.QUEUED, `gen_${n}`)), failure(Code.Unavailable)),
      failing(Code.NotFound),
    );
    await assert.rejects(async () => {
      for await (const _ of easel.watchMany([], { knownEtags }));
    }, { name: "NotFound" });
    const known = requests[1]!.knownEtags;
    assert.equal(Object.keys(known).length, 1000);
    assert.deepEqual([0, 1, 2, 3, 1000, 1001].map((n) => known[`gen_${n}`]), ["e1", undefined, undefined, "e0", "e1", "e1"]);
  });

  test("watchMany without ids repeats no state of the 10,000 that changed last", async () => {
    const knownEtags = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`gen_${n}`, "e1"]));
    const { easel } = play<WatchGenerationsRequest, unknown>(
      told(...[0, 10_000, 1, 9999, 0].map((n) => update("e1", State.QUEUED, `gen_${n}`)), failure(Code.NotFound)),
    );
    const ids: string[] = [];
    await assert.rejects(async () => {
      for await (const { generationId } of easel.watchMany([], { knownEtags })) ids.push(generationId);
    }, { name: "NotFound" });
    assert.deepEqual(ids, ["gen_10000", "gen_0"]); // the client yields gen_0 again, because it no longer stores the etag of gen_0
  });

  for (const [name, generationIds, ids] of [
    ["no etags of finished renders", [], ["gen_FAILED"]],
    ["the etags of all named renders", ["gen_1"], ["gen_DELETED", "gen_FAILED", "gen_REFUNDED", "gen_SUCCEEDED"]],
  ] as const) {
    test(`watchMany sends ${name}`, async () => {
      const states = [State.FAILED, State.SUCCEEDED, State.REFUNDED, State.DELETED];
      const { easel, requests } = play<WatchGenerationsRequest, unknown>(
        told(...states.map((state) => update("e1", state, `gen_${State[state]}`)), failure(Code.Unavailable)),
        failing(Code.NotFound),
      );
      await assert.rejects(async () => {
        for await (const _ of easel.watchMany(generationIds));
      }, { name: "NotFound" });
      assert.deepEqual(Object.keys(requests[1]!.knownEtags).sort(), ids);
    });
  }

  test("watchMany without ids does not count a repeat as progress", async () => {
    const repeat = told(update("e1", State.QUEUED), failure(Code.Unavailable));
    const { easel, hooks } = play<WatchGenerationsRequest, unknown>(repeat, repeat, repeat, failing(Code.NotFound));
    const delays: number[] = [];
    hooks.onRetry = (_, delay) => delays.push(delay);
    const etags: string[] = [];
    await assert.rejects(async () => {
      for await (const { etag } of easel.watchMany()) etags.push(etag);
    }, { name: "NotFound" });
    assert.deepEqual(etags, ["e1"]);
    assert.ok(delays.length === 3 && delays[2]! >= 1000, String(delays));
  });

  test("run reports a refunded render", async () => {
    const { easel } = play<object, unknown>(() => ({ generation: { generationId: "gen_1" } }), told(update("e1", State.REFUNDED)));
    await assert.rejects(easel.run(...order), (error) => error instanceof RenderFailed && error.render.state === "REFUNDED" && error.key === "key-1");
    const revoked = play<object, unknown>(() => ({ generation: { generationId: "gen_1" } }), failing(Code.Unauthenticated));
    await assert.rejects(revoked.easel.run(...order), { name: "Unauthenticated", key: "key-1", generationId: "gen_1" });
  });

  test("download resumes after an interruption", async () => {
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
    symlinkSync(other, join(directory, "file.part")); // the download must not follow this link
    const { easel: twice } = script();
    await Promise.all([1, 2].map(() => twice.download("gen_1", join(directory, "file"))));
    assert.deepEqual(readdirSync(directory).sort(), ["file", "file.part", "other"]);
    assert.equal(readFileSync(other, "utf8"), "mine");
    assert.deepEqual(new Uint8Array(readFileSync(join(directory, "file"))), whole);
    rmSync(directory, { recursive: true });
  });

  test("download restarts if there is no etag", async () => {
    const nameless = (chunk: Chunk) => chunk.info && (chunk.info.etag = "");
    const script = () => play<DownloadGenerationRequest, unknown>(pieces(1500, nameless, failure(Code.Unavailable)), pieces(whole.length, nameless));
    const { easel, requests } = script();
    const directory = mkdtempSync(join(tmpdir(), "easel-"));
    await easel.download("gen_1", join(directory, "file"));
    assert.deepEqual(new Uint8Array(readFileSync(join(directory, "file"))), whole);
    rmSync(directory, { recursive: true });
    assert.deepEqual(requests.map(({ readOffset }) => readOffset), [0n, 0n]);
    const stream = script();
    await assert.rejects(stream.easel.download("gen_1", new Writable({ write: (_, __, done) => done() })), { name: "Unavailable", generationId: "gen_1" });
    assert.equal(stream.requests.length, 1);
  });

  for (const [name, answer] of Object.entries({
    "no chunk": told(),
    "another checksum": pieces(whole.length, (chunk) => (chunk.crc32c ^= 1)),
    "another place": pieces(whole.length, (chunk) => (chunk.offset += 1n)),
    "missing bytes": pieces(4990),
    "another digest": pieces(whole.length, (chunk) => (chunk.summary = { sha256: "0" })),
  })) {
    test(`download takes no bytes with ${name}`, async () => {
      const { easel, requests } = play<DownloadGenerationRequest, unknown>(answer);
      const directory = mkdtempSync(join(tmpdir(), "easel-"));
      await assert.rejects(easel.download("gen_1", join(directory, "file")), Damaged);
      assert.deepEqual([readdirSync(directory), requests.length], [[], 1]);
      rmSync(directory, { recursive: true });
    });
  }
});
