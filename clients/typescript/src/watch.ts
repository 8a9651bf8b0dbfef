// This module implements watches, which reconnect after failures.
import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Client } from "@connectrpc/connect";
import { longest, type Attempts } from "./attempts.js";
import { State } from "./easel/v1/index.js";
import type * as v1 from "./easel/v1/index.js";
import { errorTable } from "./easel/v1/reasons.js";
import { values, type EaselEvent, type Render } from "./values.js";

/**
 * An iterator over the states or events of a watch. It ends when the watch is complete, or when the caller leaves the loop or
 * calls stop(). It throws an error if the call's signal aborts.
 */
export class Watch<T> implements AsyncIterableIterator<T> {
  readonly #stopped = new AbortController();
  readonly #states: AsyncGenerator<T, void, undefined>;

  constructor(follow: (stopped: AbortSignal) => AsyncGenerator<T, void, undefined>) {
    this.#states = follow(this.#stopped.signal);
  }

  /** Ends the loop over the watch without an error. */
  stop(): void {
    this.#stopped.abort();
  }

  next(): Promise<IteratorResult<T, void>> {
    return this.#states.next();
  }

  return(): Promise<IteratorResult<T, void>> {
    this.stop();
    return this.#states.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

type Generations = Client<typeof v1.GenerationService>;

export const watchOne = (generations: Generations, request: v1.WatchGenerationRequest, attempts: Attempts): Watch<Render> =>
  new Watch((stopped) =>
    follow(attempts, stopped, {
      start: (signal) => generations.watchGeneration(request, { ...attempts.options, signal }),
      newer: ({ generation }: v1.GenerationUpdate) => {
        if (!generation) return undefined;
        if (generation.etag !== request.knownEtag) attempts.failures = 0;
        request.knownEtag = generation.etag;
        const typicalRemaining = attempts.heartbeat?.typicalRemaining;
        return Object.assign(values.render(generation), typicalRemaining === undefined ? {} : { typicalRemaining });
      },
      hasGoal: true,
      heartbeatMs: request.heartbeatInterval ? durationMs(request.heartbeatInterval) : defaultHeartbeatMs,
    }),
  );

/** Watches the renders whose IDs the request lists. If the request lists no IDs, it watches all matching renders. */
export const watchMany = (generations: Generations, request: v1.WatchGenerationsRequest, attempts: Attempts): Watch<Render> =>
  new Watch(async function* (stopped) {
    const etags = new Etags(request);
    yield* follow(attempts, stopped, {
      start: (signal) => generations.watchGenerations({ ...request, knownEtags: etags.wanted() }, { ...attempts.options, signal }),
      newer: ({ generation }: v1.GenerationUpdate) => {
        if (!generation || etags.has(generation)) return undefined;
        etags.add(generation);
        attempts.failures = 0;
        return values.render(generation);
      },
      hasGoal: request.generationIds.length > 0,
      heartbeatMs: request.heartbeatInterval ? durationMs(request.heartbeatInterval) : defaultHeartbeatMs,
    });
  });

/** Yields the events of an owner. Each new stream continues after the last message. */
export const watchEvents = (generations: Generations, request: v1.WatchEventsRequest, attempts: Attempts): Watch<EaselEvent> =>
  new Watch((stopped) =>
    follow(attempts, stopped, {
      start: (signal) => updates(generations.watchEvents(request, { ...attempts.options, signal }), request),
      newer: ({ message, resumeToken }: v1.WatchEventsResponse) => {
        if (message.case !== "event") return undefined;
        attempts.failures = 0;
        return values.event(message.value, resumeToken);
      },
      hasGoal: false,
      heartbeatMs: request.heartbeatInterval ? durationMs(request.heartbeatInterval) : defaultHeartbeatMs,
    }),
  );

/** Converts the messages of an event stream to the form that follow() expects, and stores the latest resume token in the request. */
async function* updates(stream: AsyncIterable<v1.WatchEventsResponse>, request: v1.WatchEventsRequest): AsyncGenerator<{ event: WatchEvent<v1.WatchEventsResponse> }> {
  for await (const response of stream) {
    request.resumeToken = response.resumeToken;
    const { message } = response;
    yield { event: message.case === "heartbeat" || message.case === "closing" ? message : { case: "update", value: response } };
  }
}

/** The etags of the generations in a watch. If there are more than mostEtags, the oldest etag is removed. */
class Etags {
  readonly named: boolean;
  readonly #known: Map<string, string>; // etags, keyed by generation ID; the generation that changed most recently is last
  // IDs of the succeeded and refunded renders that wanted() omits; always empty if the request lists generation IDs
  readonly #finished = new Set<string>();

  constructor({ generationIds, knownEtags }: v1.WatchGenerationsRequest) {
    this.named = generationIds.length > 0;
    this.#known = new Map(Object.entries(knownEtags).slice(-mostEtags));
  }

  /**
   * Returns the etags of the most recent changes for the next request, at most mostKnownEtags. If the request lists no
   * generation IDs, the etags of succeeded and refunded renders are omitted. Each of them could cost the server an extra
   * request to the catalog.
   */
  wanted(): Record<string, string> {
    return Object.fromEntries([...this.#known].filter(([id]) => !this.#finished.has(id)).slice(-mostKnownEtags));
  }

  has({ generationId, etag }: v1.Generation): boolean {
    return this.#known.get(generationId) === etag;
  }

  /** Stores the etag of an update. If the watch has no list of generation IDs, the etag of a deleted generation is removed. */
  add({ generationId, etag, state }: v1.Generation): void {
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

/** One kind of watch, with updates of type U that contain values of type T. */
interface Watched<U, T> {
  /** Opens a stream that continues after the values received so far. */
  start: (signal: AbortSignal) => AsyncIterable<{ event: WatchEvent<U> }>;
  /** Returns the value that the watch yields for an update, or undefined if it yields none. A new value resets the back-off. */
  newer: (update: U) => T | undefined;
  /** Whether the watch is complete when the server ends a stream with OK. If false, the watch opens another stream. */
  hasGoal: boolean;
  heartbeatMs: number;
}

type WatchEvent<U> =
  | { case: "update"; value: U }
  | { case: "heartbeat"; value: v1.Heartbeat }
  | { case: "closing"; value: v1.StreamClosing }
  | { case: "content" | "caughtUp" | undefined; value?: unknown };

/** Yields new values, and reopens the stream after each failure, until the watch is complete or an error is final. */
async function* follow<U, T>(attempts: Attempts, stopped: AbortSignal, watched: Watched<U, T>): AsyncGenerator<T, void, undefined> {
  // An interval outside the contract's range counts as the nearest allowed interval, so that the stream is not aborted before
  // the server's rejection of the interval arrives.
  const limitMs = 3 * Math.min(Math.max(watched.heartbeatMs, shortestHeartbeatMs), longestHeartbeatMs);
  const outer = attempts.signal ? AbortSignal.any([attempts.signal, stopped]) : stopped;
  while (!stopped.aborted) {
    let asked = 0; // delay in milliseconds that the server requested when it closed the stream
    const began = performance.now();
    try {
      for await (const { event } of unlessSilent(watched.start, limitMs, outer)) {
        attempts.heard();
        if (event.case === "heartbeat") attempts.shared.options.onHeartbeat?.((attempts.heartbeat = values.heartbeat(event.value)));
        if (event.case === "closing" && event.value.retryDelay) asked = durationMs(event.value.retryDelay);
        const newer = event.case === "update" ? watched.newer(event.value) : undefined;
        if (newer !== undefined) yield newer;
      }
      if (watched.hasGoal) return;
      throw new ConnectError("the server ended the stream", Code.Unavailable);
    } catch (error) {
      if (performance.now() - began > longest) attempts.failures = 0;
      if (!stopped.aborted) await attempts.pause(error, { asked, ends: errorTable.watch_ends, stopped });
    }
  }
}

/** Yields the messages of a stream, and aborts the stream if no message arrives for limitMs. */
async function* unlessSilent<T>(start: (signal: AbortSignal) => AsyncIterable<T>, limitMs: number, outer: AbortSignal): AsyncGenerator<T> {
  const inner = new AbortController();
  const stream = start(AbortSignal.any([outer, inner.signal]))[Symbol.asyncIterator]();
  const silent = new ConnectError(`no message for ${limitMs / 1000} s`, Code.Unavailable);
  try {
    for (;;) {
      // The timer does not run while the caller processes a message.
      const timer = setTimeout(() => inner.abort(silent), limitMs);
      const { value, done } = await stream.next().finally(() => clearTimeout(timer));
      if (done) return;
      yield value;
    }
  } finally {
    inner.abort();
  }
}

export const defaultHeartbeatMs = 10_000;
const shortestHeartbeatMs = 1000; // minimum heartbeat interval in the contract
const longestHeartbeatMs = 60_000; // maximum heartbeat interval in the contract
const mostKnownEtags = 1000; // maximum number of etags in a request
const mostEtags = 10_000; // maximum number of etags that a watch stores
