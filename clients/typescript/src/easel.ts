// A robust client of Easel: it orders paid renders once, watches them, and downloads their files whole.
import { randomUUID } from "node:crypto";
import type { Writable } from "node:stream";
import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { createClient, type Transport } from "@connectrpc/connect";
import { Attempts, Shared, type Hooks, type Limits } from "./attempts.js";
import { connection, endpoint, type Place } from "./connection.js";
import { download } from "./download.js";
import * as v1 from "./easel/v1/index.js";
import { RenderFailed, type About } from "./errors.js";
import { values, type Account, type ContentInfo, type Model, type Order, type Quote, type Render, type State, type UsageDimension, type UsageRow, type WatchUntil } from "./values.js";
import { defaultHeartbeatMs, watchMany, watchOne, type Watch } from "./watch.js";

export type { Hooks, Limits, Logger } from "./attempts.js";
export { version, type Place } from "./connection.js";
export * from "./errors.js";
export type * from "./values.js";
export type { Watch } from "./watch.js";

/**
 * Options of a client. timeoutMs is the total time of a read or an order, by default a minute and 15 minutes, and attempts is the
 * number of attempts of a read, by default 5. An order, a watch and a download end after 100 failed attempts in a row, about 15 minutes.
 */
export interface Options extends Place, Hooks, Limits {
  /** Another way to the server: address, apiKey, allowPlaintext and grpc are not looked at. */
  transport?: Transport;
}

/** What all methods take. */
export interface CallOptions extends Limits {
  /** Ends the call. */
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

/** What the watch of many renders takes. */
export interface WatchManyOptions extends StreamOptions, Filter {
  until?: WatchUntil;
  /** By id, the etags of the last states that the caller has. */
  knownEtags?: Record<string, string>;
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

/** A client. The calls of the contract are accounts, catalog and generations; they throw the errors of Connect, and repeat nothing. */
export class Easel {
  readonly accounts;
  readonly catalog;
  readonly generations;
  readonly #shared: Shared;

  constructor(options: Options = {}) {
    const { baseUrl, secret, grpc } = options.transport ? { baseUrl: "its transport", secret: () => "", grpc: {} } : endpoint(options);
    const transport = options.transport ?? connection(baseUrl, secret, grpc);
    this.#shared = new Shared(baseUrl, options);
    this.accounts = createClient(v1.AccountService, transport);
    this.catalog = createClient(v1.ModelService, transport);
    this.generations = createClient(v1.GenerationService, transport);
  }

  /** Returns the account. As the first call of a service, with a timeoutMs of 10,000, it fails if the address, the key or the certificate is wrong. */
  async account(options: CallOptions = {}): Promise<Account> {
    return values.account((await this.#call(this.accounts.getAccount, {}, this.#attempts("read", "GetAccount", options))).account);
  }

  /** Yields the models that may be ordered, over all pages. */
  models(options: CallOptions = {}): AsyncGenerator<Model, void, undefined> {
    return this.#pages(this.catalog.listModels, {}, this.#attempts("read", "ListModels", options), ({ models }) => models.map(values.model));
  }

  /** Returns a model with its input fields. */
  async model(modelId: string, options: CallOptions = {}): Promise<Model> {
    return values.model((await this.#call(this.catalog.getModel, { modelId }, this.#attempts("read", "GetModel", options))).model);
  }

  /** Returns the price of a render now. */
  async quote(model: string, inputs: Inputs, options: CallOptions = {}): Promise<Quote> {
    const request = { modelId: model, inputsJson: textOf(inputs) };
    return values.quote((await this.#call(this.generations.quoteGeneration, request, this.#attempts("read", "QuoteGeneration", options))).quote);
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
    const raw = await this.#call(this.generations.createGeneration, request, this.#attempts("order", "CreateGeneration", options, { key }));
    const render = values.render(raw.generation);
    return { generationId: render.generationId, key, replayed: raw.replayed, render, raw };
  }

  /** Orders, watches to the end, and gives the render: its text, or what to download. One that came to nothing is a RenderFailed. */
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

  /** Returns a render as it is now. */
  async get(render: Which, options: CallOptions = {}): Promise<Render> {
    const request = { generationId: idOf(render) };
    return values.render((await this.#call(this.generations.getGeneration, request, this.#attempts("read", "GetGeneration", options, request))).generation);
  }

  /** Yields the renders that match, the newest first, over all pages. */
  list(options: Filter & CallOptions & { states?: State[] } = {}): AsyncGenerator<Render, void, undefined> {
    const filter = { ...filterOf(options), states: (options.states ?? []).map((name) => v1.State[name as keyof typeof v1.State]) };
    const attempts = this.#attempts("read", "ListGenerations", options);
    return this.#pages(this.generations.listGenerations, { filter }, attempts, ({ generations }) => generations.map(values.render));
  }

  /** Waits until a render has reached the goal, and returns it. It continues after errors as watch does. */
  async wait(render: Which, options: WatchOptions = {}): Promise<Render> {
    let newest: Render | undefined;
    for await (newest of this.watch(render, options));
    return newest ?? this.get(render, options);
  }

  /** Deletes a render and its result for good. A render that does not exist causes no error, so that a repeat is safe. */
  async delete(render: Which, { force = false, ...options }: CallOptions & { /** Deletes a render that has not ended. */ force?: boolean } = {}): Promise<void> {
    const request = { generationId: idOf(render), allowMissing: true, force };
    await this.#call(this.generations.deleteGeneration, request, this.#attempts("read", "DeleteGeneration", options, { generationId: request.generationId }));
  }

  /**
   * Yields the state of a render and each change, until the goal. It goes on through a server that restarts or falls silent, and
   * throws what watching again can't mend.
   */
  watch(render: Which, { until = "TERMINAL", knownEtag = "", heartbeatMs = defaultHeartbeatMs, ...options }: WatchOptions = {}): Watch<Render> {
    const heartbeatInterval = durationFromMs(heartbeatMs);
    const request = create(v1.WatchGenerationRequestSchema, { generationId: idOf(render), until: v1.WatchUntil[until], knownEtag, heartbeatInterval });
    return watchOne(this.generations, request, this.#attempts("stream", "WatchGeneration", options, { generationId: idOf(render) }));
  }

  /**
   * Yields the state of many renders and each change, until all have reached the goal. Without renders it watches every render that
   * matches, new ones too, until the caller leaves. A deleted one comes as DELETED. It throws as watch does, and repeats no state of the
   * 10,000 renders that changed last, nor of knownEtags.
   */
  watchMany(renders: Iterable<Which> = [], options: WatchManyOptions = {}): Watch<Render> {
    if (typeof renders === "string") throw new TypeError("watchMany takes many renders: watch takes one");
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

  /** Yields what was ordered and spent, over all pages. */
  usage(options: UsageOptions = {}): AsyncGenerator<UsageRow, void, undefined> {
    const { start, end, by = ["MODEL"], label = "" } = options;
    const times = { ...(start && { startTime: timestampFromDate(start) }), ...(end && { endTime: timestampFromDate(end) }) };
    const request = { ...times, groupBy: by.map((name) => v1.UsageDimension[name]), labelName: label };
    return this.#pages(this.accounts.listUsage, request, this.#attempts("read", "ListUsage", options), ({ rows }) => rows.map(values.usageRow));
  }

  /**
   * Fetches the file of a render, going on where it broke off. A path has its name when all bytes are there and right, and on the
   * disk; a stream gets them as they come, and is not ended.
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
    else this.#shared.logger.info(`the idempotency key of the next order is ${key}`);
    return key;
  }

  /** Calls until there is an answer. */
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

const idOf = (render: Which): string => (typeof render === "string" ? render : render.generationId);

const filterOf = ({ model = "", labels = {}, owner = "" }: Filter) => ({ modelId: model, labels, owner });

function textOf(inputs: Inputs): string {
  if (typeof inputs === "string") return inputs;
  return JSON.stringify(inputs, (name, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`JSON has no ${value}, the input ${name}`);
    return value;
  });
}
