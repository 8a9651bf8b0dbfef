// A robust client for Easel. It orders each paid render once, watches it, and verifies downloaded files.
import { randomUUID } from "node:crypto";
import type { Writable } from "node:stream";
import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { Attempts, Shared, type Hooks, type Limits } from "./attempts.js";
import { connection, endpoint, type Place } from "./connection.js";
import { download } from "./download.js";
import * as v1 from "./easel/v1/index.js";
import { RenderFailed, type About } from "./errors.js";
import { BadRequestSchema, ErrorInfoSchema } from "./google/rpc/error_details_pb.js";
import { values, withRaw, type Account, type ContentInfo, type EaselEvent, type Model, type Order, type Quote, type Render, type State, type UsageDimension, type UsageRow, type WatchUntil } from "./values.js";
import { defaultHeartbeatMs, watchEvents, watchMany, watchOne, type Watch } from "./watch.js";

export type { Hooks, Limits, Logger } from "./attempts.js";
export { version, type Place } from "./connection.js";
export * from "./errors.js";
export type * from "./values.js";
export type { Watch } from "./watch.js";

/**
 * Options of a client. timeoutMs is the total time for a read (default: 1 minute) or an order (default: 15 minutes). attempts
 * is the number of failed attempts after which a read fails (default: 5). Orders, watches and downloads fail after 100
 * consecutive failed attempts, which take about 15 minutes.
 */
export interface Options extends Place, Hooks, Limits {
  /** A custom transport. If it is set, address, apiKey, allowPlaintext and grpc are ignored. */
  transport?: Transport;
}

/** Options that all methods accept. */
export interface CallOptions extends Limits {
  /** Aborts the call. */
  signal?: AbortSignal;
}

/** The inputs of a render: an object, or a string with a JSON object, which is sent unchanged. */
export type Inputs = Record<string, unknown> | string;

/** A render, or its ID as a string. */
export type Which = string | { generationId: string };

/** Options for an order. */
export interface OrderOptions extends CallOptions {
  /**
   * The idempotency key, such as the ID of your own record. If you send the same order again with the same key, you get the
   * same render and are not charged again. If key is omitted, the client creates a key and passes it to onKey.
   */
  key?: string | number;
  maxCostCents?: number;
  /** The time after which the order is not sent to the catalog. The client's clock is not used. */
  expire?: Date;
  labels?: Record<string, string>;
}

/** Options of Easel.run. */
export interface RunOptions extends OrderOptions {
  /** Called with each state of the render, including the first. */
  onUpdate?: (render: Render) => void;
}

/** A filter for renders. A render must match all conditions that are set. */
export interface Filter {
  model?: string;
  labels?: Record<string, string>;
  /** The owner of the renders. Only an operator may set it. */
  owner?: string;
}

/** Options for every watch. */
export interface StreamOptions extends CallOptions {
  /** Heartbeat interval, from 1 to 60 s (default: 10 s). If no message arrives for three intervals, the watch reconnects. */
  heartbeatMs?: number;
}

/** Options for a watch of one render. */
export interface WatchOptions extends StreamOptions {
  until?: WatchUntil;
  /** The etag of the last state that the caller has. The watch omits this state. */
  knownEtag?: string;
}

/** Options for a watch of many renders. */
export interface WatchManyOptions extends StreamOptions, Filter {
  until?: WatchUntil;
  /** The etags of the last states that the caller has, keyed by render ID. The watch omits these states. */
  knownEtags?: Record<string, string>;
}

/** Options of Easel.events. */
export interface EventsOptions extends StreamOptions {
  /** The token of the last event that the caller has processed. If it is set, start is ignored. */
  resumeToken?: string;
  /** The time from which events are read. By default, the watch starts with the next event. */
  start?: Date;
  /** The types of the events. Default: all types. */
  types?: string[];
  /** The owner of the events. Only an operator may set it. */
  owner?: string;
}

/** Options of Easel.usage. */
export interface UsageOptions extends CallOptions {
  start?: Date;
  end?: Date;
  /** The dimensions by which the orders are grouped. Default: ["MODEL"]. */
  by?: UsageDimension[];
  /** The name of the label by which orders are grouped, if `by` contains "LABEL". */
  label?: string;
}

/**
 * A client for Easel. accounts, catalog and generations are the generated stubs. Their calls are not retried, and throw
 * Connect's errors.
 */
export class Easel {
  readonly accounts;
  readonly catalog;
  readonly generations;
  readonly #shared: Shared;

  constructor(options: Options = {}) {
    const { baseUrl, secret, grpc } = options.transport ? { baseUrl: "(custom transport)", secret: () => "", grpc: {} } : endpoint(options);
    const transport = options.transport ?? connection(baseUrl, secret, grpc);
    this.#shared = new Shared(baseUrl, options);
    this.accounts = createClient(v1.AccountService, transport);
    this.catalog = createClient(v1.ModelService, transport);
    this.generations = createClient(v1.GenerationService, transport);
  }

  /**
   * Returns the account's balance and the caller's budgets. Call it at startup with a timeoutMs of 10,000 to detect
   * a wrong address, API key or certificate.
   */
  async account(options: CallOptions = {}): Promise<Account> {
    return values.account((await this.#call(this.accounts.getAccount, {}, this.#attempts("read", "GetAccount", options))).account);
  }

  /** Yields the models that the caller can order. It requests them page by page. */
  models(options: CallOptions = {}): AsyncGenerator<Model, void, undefined> {
    return this.#pages(this.catalog.listModels, {}, this.#attempts("read", "ListModels", options), ({ models }) => models.map(values.model));
  }

  /** Returns the model with this ID, including its input fields. */
  async model(modelId: string, options: CallOptions = {}): Promise<Model> {
    return values.model((await this.#call(this.catalog.getModel, { modelId }, this.#attempts("read", "GetModel", options))).model);
  }

  /** Returns the current price of a render. */
  async quote(model: string, inputs: Inputs, options: CallOptions = {}): Promise<Quote> {
    const request = { modelId: model, inputsJson: textOf(inputs) };
    return values.quote((await this.#call(limited(this.generations.quoteGeneration), request, this.#attempts("read", "QuoteGeneration", options))).quote);
  }

  /**
   * Places an order, and retries with the same key until the outcome is known. If it throws an error whose
   * orderOutcome is "unknown", the order may exist. Keep the error's key and send the order again with the same key.
   */
  async order(model: string, inputs: Inputs, options: OrderOptions = {}): Promise<Order> {
    const { maxCostCents, expire, labels = {} } = options;
    if ("key" in options && (options.key ?? "") === "") throw new TypeError("the key must not be empty or undefined; omit it, and the client creates one");
    if ((expire ?? undefined) !== undefined && !(expire instanceof Date && !Number.isNaN(expire.getTime()))) throw new TypeError("expire must be a valid Date");
    const key = String(options.key ?? (await this.#makeKey()));
    const request = {
      ...{ modelId: model, inputsJson: textOf(inputs), idempotencyKey: key, labels },
      ...(maxCostCents === undefined ? {} : { maxCostCents: BigInt(maxCostCents) }),
      ...(expire && { expireTime: timestampFromDate(expire) }),
    };
    const raw = await this.#call(limited(this.generations.createGeneration), request, this.#attempts("order", "CreateGeneration", options, { key }));
    const render = values.render(raw.generation);
    return withRaw({ generationId: render.generationId, key, replayed: raw.replayed, render }, raw);
  }

  /** Places an order, waits until the render is finished, and returns the render. If the render did not succeed, it throws RenderFailed. */
  async run(model: string, inputs: Inputs, options: RunOptions = {}): Promise<Render> {
    const { key, ...placed } = await this.order(model, inputs, options);
    let { render } = placed;
    options.onUpdate?.(render);
    const request = create(v1.WatchGenerationRequestSchema, { generationId: render.generationId, knownEtag: render.etag });
    const attempts = this.#attempts("stream", "WatchGeneration", options, { key, generationId: render.generationId });
    for await (render of watchOne(this.generations, request, attempts)) options.onUpdate?.(render);
    if (render.state !== "SUCCEEDED") throw new RenderFailed(render, key);
    return render;
  }

  /** Returns the current state of a render. */
  async get(render: Which, options: CallOptions = {}): Promise<Render> {
    const request = { generationId: idOf(render) };
    return values.render((await this.#call(this.generations.getGeneration, request, this.#attempts("read", "GetGeneration", options, request))).generation);
  }

  /** Yields the matching renders, most recently ordered first. It requests them page by page. */
  list(options: Filter & CallOptions & { states?: State[] } = {}): AsyncGenerator<Render, void, undefined> {
    const filter = { ...filterOf(options), states: (options.states ?? []).map((name) => v1.State[name as keyof typeof v1.State]) };
    const attempts = this.#attempts("read", "ListGenerations", options);
    return this.#pages(this.generations.listGenerations, { filter }, attempts, ({ generations }) => generations.map(values.render));
  }

  /**
   * Waits until a render is finished, and returns the render. With `until: "SETTLED"`, it also waits until the cost is final. It
   * handles failures in the same way as watch().
   */
  async wait(render: Which, options: WatchOptions = {}): Promise<Render> {
    let newest: Render | undefined;
    for await (newest of this.watch(render, options));
    return newest ?? this.get(render, options);
  }

  /** Permanently deletes a render and its result. If the render does not exist, delete does nothing, so a retry is safe. */
  async delete(render: Which, { force = false, ...options }: CallOptions & { /** Allows the deletion of an unfinished render. The catalog does not always refund the price of such a render. */ force?: boolean } = {}): Promise<void> {
    const request = { generationId: idOf(render), allowMissing: true, force };
    await this.#call(this.generations.deleteGeneration, request, this.#attempts("read", "DeleteGeneration", options, { generationId: request.generationId }));
  }

  /**
   * Yields a render's current state and each newer state. The watch ends when the render is finished. With `until: "SETTLED"`,
   * it continues until the cost is final. It reconnects if a server restarts or sends no message for three heartbeat intervals.
   * It throws an error only if a retry can't help, the limits of the call are reached or the signal aborts.
   */
  watch(render: Which, { until = "TERMINAL", knownEtag = "", heartbeatMs = defaultHeartbeatMs, ...options }: WatchOptions = {}): Watch<Render> {
    const heartbeatInterval = durationFromMs(heartbeatMs);
    const request = create(v1.WatchGenerationRequestSchema, { generationId: idOf(render), until: v1.WatchUntil[until], knownEtag, heartbeatInterval });
    return watchOne(this.generations, request, this.#attempts("stream", "WatchGeneration", options, { generationId: idOf(render) }));
  }

  /**
   * Yields the current state of each render, and then each newer state. The watch ends when all renders are finished. With
   * `until: "SETTLED"`, it continues until all costs are final. If renders is empty, it watches all matching renders, including
   * new ones, until the caller leaves the loop. A deleted render has the state DELETED. The watch handles failures in the same
   * way as watch(). It never repeats a state of the 10,000 renders that changed most recently. It omits each state whose etag is
   * in knownEtags.
   */
  watchMany(renders: Iterable<Which> = [], options: WatchManyOptions = {}): Watch<Render> {
    if (typeof renders === "string") throw new TypeError("watchMany expects an iterable of IDs; for one ID, use watch");
    const { until = "TERMINAL", knownEtags = {}, heartbeatMs = defaultHeartbeatMs } = options;
    const request = create(v1.WatchGenerationsRequestSchema, {
      generationIds: Array.from(renders, idOf),
      until: v1.WatchUntil[until],
      knownEtags: { ...knownEtags },
      filter: filterOf(options),
      heartbeatInterval: durationFromMs(heartbeatMs),
    });
    return watchMany(this.generations, request, this.#attempts("stream", "WatchGenerations", options));
  }

  /**
   * Yields the durable events of the caller's team, or of the caller if it has no team: each event at least once, and the
   * events of one render in order. After a failure, it reconnects in the same way as watch() and continues after the last event.
   * If events after resumeToken may have been deleted, it throws an error with the reason RESUME_TOKEN_EXPIRED.
   */
  events(options: EventsOptions = {}): Watch<EaselEvent> {
    const { resumeToken = "", start, types = [], owner = "", heartbeatMs = defaultHeartbeatMs } = options;
    const request = create(v1.WatchEventsRequestSchema, {
      resumeToken,
      ...(start && { startTime: timestampFromDate(start) }),
      filter: { types, owner },
      heartbeatInterval: durationFromMs(heartbeatMs),
    });
    return watchEvents(this.generations, request, this.#attempts("stream", "WatchEvents", options));
  }

  /**
   * Yields the number and the cost of orders, with one row for each combination of values of the dimensions. It requests the
   * rows page by page.
   */
  usage(options: UsageOptions = {}): AsyncGenerator<UsageRow, void, undefined> {
    const { start, end, by = ["MODEL"], label = "" } = options;
    const times = { ...(start && { startTime: timestampFromDate(start) }), ...(end && { endTime: timestampFromDate(end) }) };
    const request = { ...times, groupBy: by.map((name) => v1.UsageDimension[name]), labelName: label };
    return this.#pages(this.accounts.listUsage, request, this.#attempts("read", "ListUsage", options), ({ rows }) => rows.map(values.usageRow));
  }

  /**
   * Downloads a render's file to a path or a stream, and resumes after a failure. A file appears at the path only when it is
   * complete, verified and on disk. A stream receives the bytes as they arrive and is not closed. If the content has no
   * etag, an interrupted download to a stream can't resume and fails.
   */
  async download(render: Which, to: string | Writable, options: CallOptions = {}): Promise<ContentInfo> {
    return download(this.generations, idOf(render), to, this.#attempts("stream", "DownloadGeneration", options, { generationId: idOf(render) }));
  }

  #attempts(kind: Attempts["kind"], method: string, options: CallOptions, about?: About): Attempts {
    return new Attempts(this.#shared, kind, method, options, about);
  }

  async #makeKey(): Promise<string> {
    const key = randomUUID();
    const { onKey } = this.#shared.options;
    if (onKey) await onKey(key);
    else this.#shared.logger.info(`ordering: idempotency_key=${key}`);
    return key;
  }

  /** Makes a call, and repeats it until it succeeds or an error is final. It returns the response. */
  async #call<I, O>(method: (request: I, options: CallOptions) => Promise<O>, request: I, attempts: Attempts): Promise<O> {
    for (;;) {
      try {
        const answer = await method(request, attempts.options);
        attempts.answered();
        return answer;
      } catch (error) {
        await attempts.pause(error);
      }
    }
  }

  async *#pages<I, O extends { nextPageToken: string }, T>(
    method: (request: I & { pageToken: string }, options: CallOptions) => Promise<O>,
    request: I,
    attempts: Attempts,
    read: (page: O) => T[],
  ): AsyncGenerator<T, void, undefined> {
    let pageToken = "";
    do {
      attempts.begin();
      const page = await this.#call(method, { ...request, pageToken }, attempts);
      yield* read(page);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }
}

/** Maximum size of a request's inputs in bytes. No server accepts more. */
const maxInputs = 16 << 20;

/** Returns a method that rejects inputs of more than maxInputs bytes, and otherwise calls the given method. */
function limited<I extends { inputsJson: string }, O>(method: (request: I, options: CallOptions) => Promise<O>): typeof method {
  return (request, options) => {
    if (Buffer.byteLength(request.inputsJson) <= maxInputs) return method(request, options);
    const description = `must have at most ${maxInputs} bytes; send smaller inputs`;
    const violation = { desc: BadRequestSchema, value: { fieldViolations: [{ field: "inputs_json", description }] } };
    const info = { desc: ErrorInfoSchema, value: { domain: "easel", reason: "INVALID_REQUEST", metadata: { order_outcome: "not_placed_by_this_call" } } };
    throw new ConnectError(`inputs_json ${description}`, Code.InvalidArgument, undefined, [info, violation]);
  };
}

const idOf = (render: Which): string => (typeof render === "string" ? render : render.generationId);

const filterOf = ({ model = "", labels = {}, owner = "" }: Filter) => ({ modelId: model, labels, owner });

function textOf(inputs: Inputs): string {
  if (typeof inputs === "string") return inputs;
  return JSON.stringify(inputs, (name, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`input ${name} is ${value}, which JSON cannot represent`);
    return value;
  });
}
