// A robust client of Easel: it orders paid renders once, watches them, and downloads their files whole.
import { randomUUID } from "node:crypto";
import type { Writable } from "node:stream";
import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { createClient, type Transport } from "@connectrpc/connect";
import { Attempts, Presence, type Hooks } from "./attempts.js";
import { connection, endpoint, type Place } from "./connection.js";
import { download } from "./download.js";
import * as v1 from "./easel/v1/index.js";
import { RenderFailed, type About } from "./errors.js";
import { values, type Account, type ContentInfo, type Order, type Quote, type Render, type State, type UsageDimension, type UsageRow, type WatchUntil } from "./values.js";
import { defaultHeartbeatMs, watchAccount, watchMany, watchOne, type Watch } from "./watch.js";

export type { Hooks, Logger } from "./attempts.js";
export { version, type Place } from "./connection.js";
export * from "./errors.js";
export type * from "./values.js";
export type { Watch } from "./watch.js";

/** What a client is made of. */
export interface Options extends Place, Hooks {
  /** Another way to the server: address, apiKey, allowPlaintext and grpc are not looked at. */
  transport?: Transport;
}

/** What all methods take. */
export interface CallOptions {
  /** Ends everything, such as AbortSignal.timeout(600_000). Without it they go on for as long as it takes. */
  signal?: AbortSignal;
}

/** A text is JSON, and is sent as it is. */
export type Inputs = Record<string, unknown> | string;

/** A text is the id. */
export type Which = string | { generationId: string };

/** What an order takes. */
export interface OrderOptions extends CallOptions {
  /** The same key is the same order, which is paid once: take the id of a row of yours. Without it one is made up, and given to onKey. */
  key?: string | number;
  maxCostCents?: number;
  labels?: Record<string, string>;
}

/** What run takes. */
export interface RunOptions extends OrderOptions {
  /** Hears of every state, the first one included. */
  onUpdate?: (render: Render) => void;
}

/** What chooses renders. */
export interface Filter {
  model?: string;
  labels?: Record<string, string>;
  /** For operators. */
  owner?: string;
}

/** What every watch takes. */
export interface StreamOptions extends CallOptions {
  /** The longest silence of the server, 1 to 60 s; without it 10 s. After three of them the stream is given up. */
  heartbeatMs?: number;
}

/** What the watch of one render takes. */
export interface WatchOptions extends StreamOptions {
  until?: WatchUntil;
  /** The etag of the last state that the caller has: it is not told again. */
  knownEtag?: string;
}

/** What the watch of all renders takes. */
export interface WatchAllOptions extends StreamOptions, Filter {
  /** By id, the etags of the last states that the caller has. */
  knownEtags?: Record<string, string>;
}

/** What the watch of many renders takes. */
export interface WatchManyOptions extends WatchAllOptions {
  until?: WatchUntil;
}

/** What usage takes. */
export interface UsageOptions extends CallOptions {
  start?: Date;
  end?: Date;
  /** Without it ["MODEL"]. */
  by?: UsageDimension[];
  /** The name of the label, where it is told apart by LABEL. */
  label?: string;
}

/** A client. The calls of the contract are accounts, generations and models; they throw the errors of Connect, and repeat nothing. */
export class Easel {
  readonly accounts;
  readonly generations;
  readonly models;
  readonly #presence: Presence;

  constructor(options: Options = {}) {
    const { baseUrl, secret } = options.transport ? { baseUrl: "its transport", secret: () => "" } : endpoint(options);
    const transport = options.transport ?? connection(baseUrl, secret, options.grpc);
    this.#presence = new Presence(baseUrl, options);
    this.accounts = createClient(v1.AccountService, transport);
    this.generations = createClient(v1.GenerationService, transport);
    this.models = createClient(v1.ModelService, transport);
  }

  /** Says what a render would cost. */
  async quote(model: string, inputs: Inputs, options: CallOptions = {}): Promise<Quote> {
    const request = { modelId: model, inputsJson: textOf(inputs) };
    return values.quote((await this.#call(this.generations.quoteGeneration, request, this.#attempts(options))).quote);
  }

  /**
   * Places an order, and sends it again with the same key until its outcome is known. Where orderOutcome of
   * an error says "unknown", the order may exist: order again with the key of the error.
   */
  async order(model: string, inputs: Inputs, options: OrderOptions = {}): Promise<Order> {
    const { maxCostCents, labels = {} } = options;
    if ("key" in options && (options.key ?? "") === "") throw new TypeError("a key that is empty or undefined can't find its order again: leave it out to have one made");
    const key = String(options.key ?? (await this.#makeKey()));
    const request = { modelId: model, inputsJson: textOf(inputs), idempotencyKey: key, labels, ...(maxCostCents === undefined ? {} : { maxCostCents: BigInt(maxCostCents) }) };
    const raw = await this.#call(this.generations.createGeneration, request, this.#attempts(options, { key }));
    const render = values.render(raw.generation);
    return { generationId: render.generationId, key, replayed: raw.replayed, render, raw };
  }

  /** Orders, watches to the end, and gives the render: its text, or what to download. One that came to nothing is a RenderFailed. */
  async run(model: string, inputs: Inputs, options: RunOptions = {}): Promise<Render> {
    const { key, ...placed } = await this.order(model, inputs, options);
    let { render } = placed;
    options.onUpdate?.(render);
    const request = create(v1.WatchGenerationRequestSchema, { generationId: render.generationId, knownEtag: render.etag });
    for await (render of watchOne(this.generations, request, this.#attempts(options, { key, generationId: render.generationId }))) options.onUpdate?.(render);
    if (render.state !== "SUCCEEDED") throw new RenderFailed(render, key);
    return render;
  }

  /** Reads a render once. */
  async get(render: Which, options: CallOptions = {}): Promise<Render> {
    return values.render((await this.#call(this.generations.getGeneration, { generationId: idOf(render) }, this.#attempts(options, { generationId: idOf(render) }))).generation);
  }

  /** Yields the renders that match, the newest first, over all pages. */
  async *list(options: Filter & CallOptions & { states?: State[] } = {}): AsyncGenerator<Render, void, undefined> {
    const filter = { ...filterOf(options), states: (options.states ?? []).map((name) => v1.State[name as keyof typeof v1.State]) };
    const attempts = this.#attempts(options);
    let pageToken = "";
    do {
      const page = await this.#call(this.generations.listGenerations, { filter, pageToken }, attempts);
      yield* page.generations.map(values.render);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /**
   * Yields the state of a render and each change, until the goal. It goes on through a server that restarts or falls silent, and
   * throws what watching again can't mend.
   */
  watch(render: Which, { until = "TERMINAL", knownEtag = "", heartbeatMs = defaultHeartbeatMs, ...options }: WatchOptions = {}): Watch<Render> {
    const heartbeatInterval = durationFromMs(heartbeatMs);
    const request = create(v1.WatchGenerationRequestSchema, { generationId: idOf(render), until: v1.WatchUntil[until], knownEtag, heartbeatInterval });
    return watchOne(this.generations, request, this.#attempts(options, { generationId: idOf(render) }));
  }

  /**
   * Yields the state of many renders and each change, until all have reached the goal: of none, it is over. A deleted one comes
   * as DELETED. It throws as watch does, and repeats no state of the 10,000 renders that changed last, nor of knownEtags.
   */
  watchMany(renders: Iterable<Which>, options: WatchManyOptions = {}): Watch<Render> {
    if (typeof renders === "string") throw new TypeError("watchMany takes many renders: watch takes one");
    return this.#watchMany(Array.from(renders, idOf), options);
  }

  /** Is watchMany of every render that matches, new ones too, and goes on until the caller leaves. */
  watchAll(options: WatchAllOptions = {}): Watch<Render> {
    return this.#watchMany(undefined, options);
  }

  #watchMany(generationIds: string[] | undefined, options: WatchManyOptions): Watch<Render> {
    const { until = "TERMINAL", knownEtags = {}, heartbeatMs = defaultHeartbeatMs } = options;
    const request = create(v1.WatchGenerationsRequestSchema, {
      generationIds: generationIds ?? [],
      until: v1.WatchUntil[until],
      knownEtags: { ...knownEtags },
      filter: filterOf(options),
      heartbeatInterval: durationFromMs(heartbeatMs),
    });
    return watchMany(this.generations, request, generationIds === undefined, this.#attempts(options));
  }

  /** Yields the account and each change, until the caller leaves. It throws as watch does. */
  watchAccount({ heartbeatMs = defaultHeartbeatMs, ...options }: StreamOptions = {}): Watch<Account> {
    return watchAccount(this.accounts, heartbeatMs, this.#attempts(options));
  }

  /** Yields what was ordered and spent, over all pages. */
  async *usage(options: UsageOptions = {}): AsyncGenerator<UsageRow, void, undefined> {
    const { start, end, by = ["MODEL"], label = "" } = options;
    const times = { ...(start && { startTime: timestampFromDate(start) }), ...(end && { endTime: timestampFromDate(end) }) };
    const attempts = this.#attempts(options);
    let pageToken = "";
    do {
      const request = { ...times, groupBy: by.map((name) => v1.UsageDimension[name]), labelName: label, pageToken };
      const page = await this.#call(this.accounts.listUsage, request, attempts);
      yield* page.rows.map(values.usageRow);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /**
   * Fetches the file of a render, going on where it broke off. A path has its name when all bytes are there and right, and on the
   * disk; a stream gets them as they come, and is not ended.
   */
  async download(render: Which, to: string | Writable, options: CallOptions = {}): Promise<ContentInfo> {
    return download(this.generations, idOf(render), to, this.#attempts(options, { generationId: idOf(render) }));
  }

  #attempts({ signal }: CallOptions, about?: About): Attempts {
    return new Attempts(this.#presence, signal, about);
  }

  async #makeKey(): Promise<string> {
    const key = randomUUID();
    const { onKey, logger } = this.#presence.hooks;
    if (onKey) await onKey(key);
    else logger?.info(`the idempotency key of the next order is ${key}`);
    return key;
  }

  /** Calls until there is an answer. A read, which has no key, is made a few times. */
  async #call<I, O>(method: (request: I, options: CallOptions) => Promise<O>, request: I, attempts: Attempts): Promise<O> {
    for (;;) {
      try {
        const answer = await method(request, attempts.options);
        attempts.answered();
        return answer;
      } catch (error) {
        await attempts.pause(error, { read: attempts.about.key === undefined });
      }
    }
  }
}

const idOf = (render: Which): string => (typeof render === "string" ? render : render.generationId);

const filterOf = ({ model = "", labels = {}, owner = "" }: Filter) => ({ modelId: model, labels, owner });

function textOf(inputs: Inputs): string {
  if (typeof inputs === "string") return inputs;
  return JSON.stringify(inputs, (name, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`JSON has no ${value}, the input ${name}`);
    return value;
  });
}
