// What every client of Easel would write again: orders that go on, watches and downloads that
// resume, and what an error says.
import { createHash, randomBytes } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { clone, create, equals, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs, type Duration } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager, type GrpcTransportOptions } from "@connectrpc/connect-node";
import type { Account, AccountUpdate, ContentInfo, CreateGenerationRequestSchema, Generation, GenerationUpdate } from "./easel/v1/index.js";
import type { Heartbeat, StreamClosing, WatchGenerationsRequest, WatchUntil } from "./easel/v1/index.js";
import { AccountSchema, WatchAccountRequestSchema, WatchGenerationsRequestSchema } from "./easel/v1/index.js";
import { AccountService, ErrorReason, GenerationService, ModelService, serviceConfig, State } from "./easel/v1/index.js";
import { ErrorInfoSchema, RetryInfoSchema } from "./google/rpc/error_details_pb.js";

/** An order. Its idempotency key is written down before the order leaves, and kept until the answer is known. */
export type Order = MessageInitShape<typeof CreateGenerationRequestSchema> & { idempotencyKey: string };

/** What is known of an order that has failed: see CreateGeneration. */
export type OrderOutcome = "unknown" | "not_placed_by_this_call" | "not_placed";

/** What all methods take. */
export interface Options {
  /** Ends everything, such as `AbortSignal.timeout(600_000)`. Without it they go on for as long as it takes. */
  signal?: AbortSignal;
  /** Hears of an error that another attempt follows, and after how many milliseconds. */
  onRetry?: (error: ConnectError, delayMs: number) => void;
}

/** What every watch takes. */
export interface StreamOptions extends Options {
  /** Hears why the watch is quiet. */
  onHeartbeat?: (heartbeat: Heartbeat) => void;
}

/** What the watch of one render takes. */
export interface WatchOptions extends StreamOptions {
  /** The etag of the last state that the caller has: it is not told again. */
  knownEtag?: string;
  /** The goal. Without it, the first terminal state. */
  until?: WatchUntil;
  /** The longest silence of the server, 1 to 60 s; without it 15 s. After three of them the stream is given up. */
  heartbeatMs?: number;
}

/** What run takes. */
export interface RunOptions extends WatchOptions {
  /** Hears of every state, the first one included. */
  onUpdate?: (generation: Generation) => void;
}

/** A render that was paid and came to nothing, or was deleted. */
export class FailedError extends Error {
  override name = "FailedError";
  constructor(readonly generation: Generation) {
    super(`${State[generation.state]}: ${generation.failureMessage}`);
  }
}

/**
 * Connects to Easel, with an API key or a service token. The connection finds out by pings when it is dead,
 * and retries unary calls by the service config. The address begins with https:// where the server has TLS.
 */
export function connect(address: string, secret = "", options: Partial<GrpcTransportOptions> = {}): Easel {
  if (!/^https?:\/\//.test(address)) throw new TypeError(`the address must begin with http:// or https://: ${address}`);
  const authorize: Interceptor = (next) => (request) => {
    if (secret) request.header.set("authorization", "Bearer " + secret);
    return next(request);
  };
  const interceptors = [...(options.interceptors ?? []), retryUnary, authorize];
  const sessionManager = new Connection(address, { pingIntervalMs: 10_000, pingTimeoutMs: 5_000, ...options });
  return new Easel(createGrpcTransport({ sessionManager, ...options, baseUrl: address, interceptors }));
}

/**
 * A connection that is replaced where a call gets no stream of it for three ping timeouts. Connect pings a connection that was quiet
 * before it uses it again. It forgets that ping where another stream closes meanwhile, and where the connection does, and then every
 * later call waits for its answer (github.com/connectrpc/connect-es/pull/1746 mends the second).
 */
class Connection {
  readonly authority;
  readonly #open;
  readonly #limitMs;
  #newest;

  constructor(address: string, pings: { pingTimeoutMs: number } & Partial<GrpcTransportOptions>) {
    this.#open = () => new Http2SessionManager(address, pings, pings.nodeOptions);
    this.#limitMs = 3 * pings.pingTimeoutMs;
    this.#newest = this.#open();
    this.authority = this.#newest.authority;
  }

  async request(...request: Parameters<Http2SessionManager["request"]>) {
    const asked = this.#newest;
    const stream = asked.request(...request);
    const answered = new AbortController();
    const late = sleep(this.#limitMs, undefined, { signal: answered.signal }).then(() => {
      const error = new ConnectError("the connection does not answer", Code.Unavailable);
      if (this.#newest === asked) this.#newest = this.#open();
      asked.abort(error);
      stream.then((tooLate) => tooLate.close()).catch(() => undefined);
      throw error;
    });
    return Promise.race([stream, late]).finally(() => answered.abort());
  }

  notifyResponseByteRead(...read: Parameters<Http2SessionManager["notifyResponseByteRead"]>) {
    this.#newest.notifyResponseByteRead(...read);
  }
}

/** Every call of the contract, and those beside them that go on through whatever a repeat may mend. */
export class Easel {
  readonly accounts;
  readonly generations;
  readonly models;

  constructor(transport: Transport) {
    this.accounts = createClient(AccountService, transport);
    this.generations = createClient(GenerationService, transport);
    this.models = createClient(ModelService, transport);
  }

  /**
   * Places an order, and sends it again with the same idempotency key until its outcome is known. Where
   * orderOutcome of an error says "unknown", the order may exist: keep the key.
   */
  async order(request: Order, options: Options = {}): Promise<Generation> {
    if (!request.idempotencyKey) throw new ConnectError("an order needs an idempotency key", Code.InvalidArgument);
    for (let attempt = 0; ; attempt++) {
      try {
        const { generation } = await this.generations.createGeneration(request, callOptions(options));
        if (generation) return generation;
        throw new ConnectError("the answer has no generation", Code.Internal);
      } catch (error) {
        await again(error, repeatHelps, attempt, options);
      }
    }
  }

  /**
   * Yields the state of a render and each change, until the goal, over as many streams as it takes.
   * It throws only where watching again can't help, or by the signal.
   */
  async *watch(generationId: string, options: WatchOptions = {}): AsyncGenerator<Generation, void, undefined> {
    const { heartbeatMs = defaultHeartbeatMs, until = 0 } = options;
    const heartbeatInterval = durationFromMs(heartbeatMs);
    let knownEtag = options.knownEtag ?? "";
    const watched: Watched<GenerationUpdate> = {
      start: (signal) => this.generations.watchGeneration({ generationId, knownEtag, until, heartbeatInterval }, { signal }),
      isProgress: ({ generation }) => generation?.etag !== knownEtag,
      hasGoal: true,
      heartbeatInterval,
    };
    for await (const { generation } of follow(watched, options)) {
      if (!generation) continue;
      knownEtag = generation.etag;
      yield generation;
    }
  }

  /**
   * Yields the state of each generation of the request and each change, over as many streams as it takes; a
   * deleted one comes as STATE_DELETED. With named generations it ends when all of them have reached the goal.
   * Without, it goes on, and follows those that appear too. It repeats no state of the 10,000 generations that
   * changed last. It throws as watch does.
   */
  async *watchMany(
    request: MessageInitShape<typeof WatchGenerationsRequestSchema>,
    options: StreamOptions = {},
  ): AsyncGenerator<Generation, void, undefined> {
    const asked = copy(WatchGenerationsRequestSchema, request);
    const etags = new Etags(asked);
    const watched: Watched<GenerationUpdate> = {
      start: (signal) => this.generations.watchGenerations({ ...asked, knownEtags: etags.wanted() }, { signal }),
      isProgress: ({ generation }) => generation !== undefined && !etags.has(generation),
      hasGoal: etags.named,
      heartbeatInterval: asked.heartbeatInterval,
    };
    for await (const { generation } of follow(watched, options)) {
      if (!generation || etags.has(generation)) continue;
      etags.add(generation);
      yield generation;
    }
  }

  /**
   * Yields the account and each change, over as many streams as it takes. It has no goal and goes on until
   * the caller leaves. It throws as watch does.
   */
  async *watchAccount(
    request: MessageInitShape<typeof WatchAccountRequestSchema> = {},
    options: StreamOptions = {},
  ): AsyncGenerator<Account, void, undefined> {
    const asked = copy(WatchAccountRequestSchema, request);
    let last: Account | undefined;
    const watched: Watched<AccountUpdate> = {
      start: (signal) => this.accounts.watchAccount(asked, { signal }),
      isProgress: ({ initial }) => !initial || !last,
      hasGoal: false,
      heartbeatInterval: asked.heartbeatInterval,
    };
    for await (const { account, initial } of follow(watched, options)) {
      if (!account) continue;
      // What can change: not when it was read, nor what else the catalog says.
      const money = { ...account, observeTime: undefined, upstreamFields: undefined };
      if (initial && last && equals(AccountSchema, money, last)) continue;
      last = money;
      yield account;
    }
  }

  /**
   * Fetches the file of a render over as many streams as it takes. A path has its name when all bytes are
   * there and right; a stream gets them as they come, and is not ended.
   */
  async download(generationId: string, to: string | Writable, options: Options = {}): Promise<ContentInfo | undefined> {
    if (typeof to !== "string") {
      const write = (data: Uint8Array) => new Promise<void>((resolve, reject) => to.write(data, (error) => (error ? reject(error) : resolve())));
      return this.#fetch(generationId, write, options);
    }
    const part = join(dirname(to), `.${basename(to)}.${randomBytes(5).toString("hex")}.part`);
    const file = await open(part, "wx"); // a new file: a link that somebody has put there is not followed
    try {
      const info = await this.#fetch(generationId, (data) => file.writeFile(data), options);
      await file.sync();
      await rename(part, to);
      return info;
    } finally {
      await file.close();
      await rm(part, { force: true });
    }
  }

  async #fetch(generationId: string, write: (data: Uint8Array) => Promise<void>, options: Options): Promise<ContentInfo | undefined> {
    const digest = createHash("sha256");
    let readOffset = 0n;
    let info: ContentInfo | undefined;
    for (let attempt = 0; ; attempt++) {
      try {
        const request = { generationId, readOffset, etag: info?.etag ?? "" }; // the rest must be of the same bytes
        for await (const { chunk } of this.generations.downloadGeneration(request, callOptions(options))) {
          if (chunk?.offset !== readOffset || crc32c(chunk.data) !== chunk.crc32c) throw damaged();
          await write(chunk.data);
          digest.update(chunk.data);
          readOffset += BigInt(chunk.data.length);
          info ??= chunk.info;
          attempt = 0;
          if (chunk.summary && chunk.summary.sha256 !== digest.copy().digest("hex")) throw damaged();
        }
        if (readOffset !== (info?.sizeBytes ?? readOffset)) throw damaged();
        return info;
      } catch (error) {
        await again(error, repeatHelps, attempt, options);
      }
    }
  }

  /** Orders, watches to the goal, and gives the render: its text, or what to download. One that came to nothing is a FailedError. */
  async run(request: Order, options: RunOptions = {}): Promise<Generation> {
    let generation = await this.order(request, options);
    options.onUpdate?.(generation);
    const rest = { ...options, knownEtag: generation.etag };
    for await (generation of this.watch(generation.generationId, rest)) options.onUpdate?.(generation);
    if (generation.state !== State.SUCCEEDED) throw new FailedError(generation);
    return generation;
  }
}

/** The etags of the newest updates that a watch of many generations has had. */
class Etags {
  readonly named: boolean;
  readonly #known: Map<string, string>; // by id, the one that changed longest ago first
  readonly #finished = new Set<string>(); // what has not changed any more needs no read

  constructor({ generationIds, knownEtags }: WatchGenerationsRequest) {
    this.named = generationIds.length > 0;
    this.#known = new Map(Object.entries(knownEtags).slice(-mostEtags));
  }

  /** Those for the next request. The catalog is asked about each that it does not list any more: what is finished is left out. */
  wanted(): Record<string, string> {
    return Object.fromEntries([...this.#known].filter(([id]) => !this.#finished.has(id)).slice(-mostKnownEtags));
  }

  has({ generationId, etag }: Generation): boolean {
    return this.#known.get(generationId) === etag;
  }

  /** Remembers an update. A deleted generation that nobody named is forgotten. */
  add({ generationId, etag, state }: Generation): void {
    this.#forget(generationId);
    if (state === State.DELETED && !this.named) return;
    this.#known.set(generationId, etag);
    if (!this.named && (state === State.SUCCEEDED || state === State.REFUNDED)) this.#finished.add(generationId);
    const [oldest] = this.#known.keys();
    if (oldest !== undefined && this.#known.size > mostEtags) this.#forget(oldest);
  }

  #forget(id: string): void {
    this.#known.delete(id);
    this.#finished.delete(id);
  }
}

/** Says why a call has failed; ERROR_REASON_UNSPECIFIED where the error is not of Easel, or of a newer one. */
export function reason(error: unknown): ErrorReason {
  return ErrorReason[errorInfo(error)?.reason as keyof typeof ErrorReason] ?? ErrorReason.ERROR_REASON_UNSPECIFIED;
}

/** Says after how many milliseconds the server asks to come again, if it does. */
export function retryDelay(error: unknown): number | undefined {
  const delay = error instanceof ConnectError ? error.findDetails(RetryInfoSchema)[0]?.retryDelay : undefined;
  return delay && durationMs(delay);
}

/** Says what is known of an order that has failed. Only after "not_placed" may its idempotency key be forgotten. */
export function orderOutcome(error: unknown): OrderOutcome {
  return (errorInfo(error)?.metadata["order_outcome"] as OrderOutcome | undefined) ?? "unknown";
}

function errorInfo(error: unknown) {
  return error instanceof ConnectError ? error.findDetails(ErrorInfoSchema).find(({ domain }) => domain === "easel") : undefined;
}

/** Reports whether the same call again may mend an error. A reason outranks its code. */
function repeatHelps(error: ConnectError): boolean {
  const why = reason(error);
  if (why === ErrorReason.SUBMISSION_OUTCOME_UNKNOWN) return retryDelay(error) !== undefined; // else it is too late
  if (why !== ErrorReason.ERROR_REASON_UNSPECIFIED) return passing.includes(why);
  return broken.includes(error.code) || retryDelay(error) !== undefined;
}

const passing = [
  ...[ErrorReason.SUBMISSION_IN_PROGRESS, ErrorReason.CONTENT_NOT_READY, ErrorReason.CONTENT_INTERRUPTED, ErrorReason.UPSTREAM_RATE_LIMITED],
  ...[ErrorReason.UPSTREAM_UNAVAILABLE, ErrorReason.UPSTREAM_MALFORMED_RESPONSE, ErrorReason.LEDGER_UNAVAILABLE, ErrorReason.OVERLOADED],
  ...[ErrorReason.STREAM_QUOTA_EXCEEDED, ErrorReason.READER_TOO_SLOW, ErrorReason.SERVER_DRAINING, ErrorReason.STREAM_MAX_AGE],
  ...[ErrorReason.REQUEST_BODY_TIMEOUT, ErrorReason.CANCELLED, ErrorReason.DEADLINE_EXCEEDED, ErrorReason.INTERNAL, ErrorReason.UNAVAILABLE],
];
/** What Connect says of a connection that is lost. */
const lost = [Code.Canceled, Code.Aborted];
/** What libraries and proxies say. */
const broken = [...lost, Code.Unavailable, Code.Internal, Code.Unknown, Code.DeadlineExceeded];
/** What a watch that is opened again would meet again. */
const final = [Code.NotFound, Code.Unauthenticated, Code.PermissionDenied, Code.InvalidArgument, Code.FailedPrecondition, Code.Unimplemented];

/** Retries as the service config says, which Connect does not read. */
const retryUnary: Interceptor = (next) => async (request) => {
  const { service, method } = request;
  const config = serviceConfig.methodConfig.find(({ name }) => name.some((n) => n.service === service.typeName && n.method === method.name));
  for (let attempt = 1; ; attempt++) {
    try {
      return await next(request);
    } catch (error) {
      if (!config || !(error instanceof ConnectError) || attempt === config.retryPolicy.maxAttempts) throw error;
      const { retryableStatusCodes, initialBackoff, backoffMultiplier, maxBackoff } = config.retryPolicy;
      const name = lost.includes(error.code) && !errorInfo(error) ? "UNAVAILABLE" : Code[error.code].toUpperCase();
      if (!retryableStatusCodes.includes(name)) throw error;
      const delay = Math.min(parseFloat(initialBackoff) * backoffMultiplier ** (attempt - 1), parseFloat(maxBackoff));
      await pause(error, Math.max(1000 * delay * (0.8 + 0.4 * Math.random()), retryDelay(error) ?? 0), request.signal);
    }
  }
};

/** One kind of watch, whose updates are of type U. */
interface Watched<U> {
  /** Opens a stream that goes on after the last update. */
  start: (signal: AbortSignal) => AsyncIterable<{ event: WatchEvent<U> }>;
  /** Reports whether an update, which is not yielded yet, sets the back-off to its beginning. */
  isProgress: (update: U) => boolean;
  /** Whether the server ends a stream with OK at a goal. */
  hasGoal: boolean;
  /** The longest silence of the server; without it the contract's default. */
  heartbeatInterval?: Duration | undefined;
}

type WatchEvent<U> =
  | { case: "update"; value: U }
  | { case: "heartbeat"; value: Heartbeat }
  | { case: "closing"; value: StreamClosing }
  | { case: "content" | "caughtUp" | undefined; value?: unknown };

/** Yields the updates of one stream after another, until the goal or an error that watching again can't help. */
async function* follow<U>({ start, isProgress, hasGoal, heartbeatInterval }: Watched<U>, options: StreamOptions): AsyncGenerator<U> {
  // The server refuses an interval that is too short, and is given the time to say so.
  const limitMs = 3 * Math.max(heartbeatInterval ? durationMs(heartbeatInterval) : defaultHeartbeatMs, shortestHeartbeatMs);
  for (let attempt = 0; ; attempt++) {
    let told = 0; // how long the closing server asks to stay away
    let progress = false;
    const began = Date.now();
    try {
      for await (const { event } of unlessSilent(start, limitMs, options.signal)) {
        if (event.case === "heartbeat") options.onHeartbeat?.(event.value);
        if (event.case === "closing" && event.value.retryDelay) told = durationMs(event.value.retryDelay);
        if (event.case === "update") {
          progress ||= isProgress(event.value);
          yield event.value;
        }
      }
      if (hasGoal) return;
      throw new ConnectError("the stream has ended, and has no goal", Code.Unavailable);
    } catch (error) {
      if (progress || Date.now() - began > longest) attempt = 0;
      await again(error, ({ code }) => !final.includes(code), attempt, options, told);
    }
  }
}

/** Reads a stream, and breaks it off where nothing has come for so long. */
async function* unlessSilent<T>(start: (signal: AbortSignal) => AsyncIterable<T>, limitMs: number, outer?: AbortSignal): AsyncGenerator<T> {
  const inner = new AbortController();
  const stream = start(outer ? AbortSignal.any([outer, inner.signal]) : inner.signal)[Symbol.asyncIterator]();
  try {
    for (;;) {
      // While the caller is busy with a message, nothing is awaited and nothing is missing.
      const timer = setTimeout(() => inner.abort(new ConnectError("three heartbeats are missing", Code.Unavailable)), limitMs);
      const { value, done } = await stream.next().finally(() => clearTimeout(timer));
      if (done) return;
      yield value;
    }
  } finally {
    inner.abort();
  }
}

const damaged = () => new ConnectError("bytes arrived damaged", Code.DataLoss);

const longest = 10_000; // of back-off, in milliseconds
const defaultHeartbeatMs = 15_000;
const shortestHeartbeatMs = 1000; // that the contract allows
const mostKnownEtags = 1000; // that a request may have
const mostEtags = 10_000; // that a watch remembers

/** Waits before another attempt, with back-off and no less than the server asks. The error is thrown where none is worth it. */
async function again(error: unknown, worth: (error: ConnectError) => boolean, attempt: number, options: Options, told = 0): Promise<void> {
  if (!(error instanceof ConnectError) || !worth(error) || options.signal?.aborted) throw error;
  const backOff = Math.min(500 * 2 ** attempt, longest) * (0.5 + Math.random());
  const delay = Math.max(backOff, told, retryDelay(error) ?? 0);
  options.onRetry?.(error, delay);
  await pause(error, delay, options.signal);
}

/** Waits. Where the caller's signal leaves no time for that, the error is thrown. */
async function pause(error: unknown, delayMs: number, signal?: AbortSignal): Promise<void> {
  await sleep(delayMs, undefined, signal && { signal }).catch(() => {
    throw error;
  });
}

/** Copies a request, which the caller may change while a watch goes on. */
const copy = <D extends DescMessage>(schema: D, request: MessageInitShape<D>): MessageShape<D> => clone(schema, create(schema, request));

const callOptions = ({ signal }: Options) => (signal ? { signal } : {});

const table = Int32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0x82f63b78 : n >>> 1;
  return n;
});

function crc32c(data: Uint8Array): number {
  let crc = ~0;
  for (const byte of data) crc = (crc >>> 8) ^ (table[(crc ^ byte) & 255] ?? 0);
  return ~crc >>> 0;
}
