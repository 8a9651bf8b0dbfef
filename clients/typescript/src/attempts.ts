// When another attempt is made, and who hears of it.
import { setTimeout as sleep } from "node:timers/promises";
import { ConnectError } from "@connectrpc/connect";
import { errorOf, Stopped, Timeout, type About, type EaselError, type OrderOutcome } from "./errors.js";
import type { Heartbeat } from "./values.js";

/** Takes lines, as console does. */
export interface Logger {
  info(line: string): void;
  warn(line: string): void;
}

/** What a client tells beside its results. */
export interface Hooks {
  /** Hears of an error that another attempt follows, and after how many milliseconds. */
  onRetry?: (error: EaselError, delayMs: number) => void;
  /** Hears why a watch is quiet. */
  onHeartbeat?: (heartbeat: Heartbeat) => void;
  /** Gets each idempotency key that is made up, before its order leaves: the order waits for it. */
  onKey?: (key: string) => unknown;
  /** Gets a warning of each call that is retried for five seconds, and a line when it recovers. Without it the warnings go to the console. */
  logger?: Logger;
}

/** Bounds of a call. */
export interface Limits {
  /** Total time in milliseconds, over all attempts. Infinity means no limit. */
  timeoutMs?: number;
  /** Number of failed attempts in a row after which the call ends. */
  attempts?: number;
}

/** The default limits of each kind of call. A stream lasts as long as the render, and ends after an outage of about 15 minutes. */
const kinds = {
  read: { timeoutMs: 60_000, attempts: 5 },
  order: { timeoutMs: 900_000, attempts: 100 },
  stream: { timeoutMs: Infinity, attempts: 100 },
};

/** The common part of all calls of a client. */
export class Shared {
  readonly logger: Logger;
  readonly #warnedAt = new Map<string, number>();

  constructor(
    readonly address: string,
    readonly options: Hooks & Limits,
  ) {
    this.logger = options.logger ?? { info: () => undefined, warn: (line) => console.warn(line) };
  }

  /** Reports whether a warning of a method is due, and records it. */
  mayWarn(method: string): boolean {
    const now = performance.now();
    if (now - (this.#warnedAt.get(method) ?? -Infinity) < warnIntervalMs) return false;
    this.#warnedAt.set(method, now);
    return true;
  }
}

/** A warning comes after failures of so long, the coming delay included. */
const warnAfterMs = 5000;
/** Time interval of the warnings of one method. */
const warnIntervalMs = 60_000;

/** The longest back-off, in milliseconds and before jitter. */
export const longest = 10_000;

/** What is special about a wait. */
interface Pause {
  /** How long a server asks to stay away, beside what its error says. */
  asked?: number;
  ends?: readonly string[];
  stopped?: AbortSignal;
  /** Whether no attempt may follow. */
  last?: boolean;
}

/** A server that asks to wait for longer, in milliseconds, is not waited for. */
const longestAsked = 3_600_000;

/** How often a read is made whose server asks for each attempt. */
const mostAsked = 10;

/** Counts the attempts of one call. */
export class Attempts {
  failures = 0;
  heartbeat: Heartbeat | undefined;
  readonly signal: AbortSignal | undefined;
  readonly #timeoutMs: number;
  readonly #most: number;
  #end = 0;
  #spent = { asked: 0, unasked: 0 }; // failed attempts since the last response
  #failingSince: number | undefined = performance.now(); // undefined after a response
  #warned = false;
  #last: EaselError | undefined; // that the end of the time has not made
  #outcome: OrderOutcome | undefined; // outcome of an order after all attempts; undefined for other calls

  constructor(
    readonly shared: Shared,
    readonly kind: keyof typeof kinds,
    readonly method: string,
    { signal, ...limits }: Limits & { signal?: AbortSignal },
    readonly about: About = {},
  ) {
    this.signal = signal;
    if (kind === "order") this.#outcome = "not_placed_by_this_call";
    const { timeoutMs, attempts } = shared.options;
    this.#timeoutMs = limits.timeoutMs ?? (kind === "stream" ? undefined : timeoutMs) ?? kinds[kind].timeoutMs;
    this.#most = limits.attempts ?? (kind === "read" ? attempts : undefined) ?? kinds[kind].attempts;
    this.begin();
  }

  /** Starts the time of the call, again for each page of a list. */
  begin(): void {
    this.#end = performance.now() + this.#timeoutMs;
  }

  /** What a call takes. */
  get options(): { signal?: AbortSignal; timeoutMs?: number } {
    const left = Math.min(Math.max(Math.ceil(this.#end - performance.now()), 1), maxTimeoutMs);
    return { ...(this.signal && { signal: this.signal }), ...(this.#end < Infinity && { timeoutMs: left }) };
  }

  /** Begins the back-off anew. */
  answered(): void {
    this.failures = 0;
    this.heard();
  }

  /** Records a response, which need not be progress. */
  heard(): void {
    if (this.#warned && this.#failingSince !== undefined) this.shared.logger.info(`call recovered: method=${this.method} after=${seconds(performance.now() - this.#failingSince)}`);
    [this.#failingSince, this.#warned, this.#spent] = [undefined, false, { asked: 0, unasked: 0 }];
  }

  /**
   * Waits before another attempt, with back-off and no less than the server asks, until it is stopped. It throws what no attempt can
   * mend: the errors with the codes of ends, where there are any.
   */
  async pause(cause: unknown, { asked = 0, ends, stopped, last }: Pause = {}): Promise<void> {
    if (!(cause instanceof ConnectError)) throw cause;
    const error = this.#error(cause);
    if (this.#isOver()) throw this.#ended(this.#last ?? error);
    this.#last = error;
    if (last || (ends ? ends.includes(error.code) : !error.isRetryable)) throw error;
    this.#spent[error.retryAfter === undefined ? "unasked" : "asked"]++;
    const backOff = Math.min(500 * 2 ** Math.min(this.failures++, 8), longest) * (0.5 + Math.random());
    const delay = Math.max(backOff, asked, error.retryAfter ?? 0);
    if (delay > longestAsked || this.#isUsedUp()) throw error;
    if (performance.now() + delay >= this.#end) throw this.#ended(error);
    this.#warn(error, delay);
    this.shared.options.onRetry?.(error, delay);
    const signals = [this.signal, stopped].filter((one) => one !== undefined);
    await sleep(delay, undefined, { signal: AbortSignal.any(signals) }).catch(() => undefined);
    if (this.signal?.aborted) throw this.#ended(error);
  }

  #isOver(): boolean {
    return this.signal?.aborted === true || performance.now() >= this.#end;
  }

  #isUsedUp(): boolean {
    const { asked, unasked } = this.#spent;
    return this.kind === "read" ? asked >= mostAsked || unasked >= this.#most : asked + unasked >= this.#most;
  }

  /** Logs that the call has been failing for five seconds. */
  #warn(error: EaselError, delay: number): void {
    this.#failingSince ??= performance.now();
    const failing = performance.now() - this.#failingSince;
    if (failing + delay < warnAfterMs || !this.shared.mayWarn(this.method)) return;
    this.#warned = true;
    const { address, logger } = this.shared;
    logger.warn(`call still failing: method=${this.method} address=${address} failing_for=${seconds(failing)} retry_in=${seconds(delay)} error=${error.message}`);
  }

  /** Makes an error that says what is known of the order after all attempts: one may have been taken after another was refused. */
  #error(cause: ConnectError): EaselError {
    const error = errorOf(cause, this.about);
    const outcome = (error.metadata["order_outcome"] as OrderOutcome | undefined) ?? "unknown";
    if (this.#outcome && (outcome !== "not_placed_by_this_call" || this.#outcome !== "unknown")) this.#outcome = outcome;
    return this.#told(error);
  }

  #told(error: EaselError): EaselError {
    return this.#outcome ? Object.assign(error, { orderOutcome: this.#outcome }) : error;
  }

  /** Makes the error of a signal that has ended the attempts, with the reason of the last one. */
  #ended({ message, cause }: EaselError): EaselError {
    const { upstreamCondition = "", lastError = "" } = this.heartbeat ?? {};
    const heard = this.heartbeat ? `; the last heartbeat: ${upstreamCondition} ${lastError}`.trimEnd() : "";
    const error =
      !this.signal?.aborted || (this.signal.reason as Error).name === "TimeoutError"
        ? new Timeout(`not done in time, after ${message}${heard}`, { code: "DEADLINE_EXCEEDED", cause, ...this.about }, this.heartbeat)
        : new Stopped(`stopped by the signal, after ${message}`, { code: "CANCELLED", cause, ...this.about });
    return this.#told(error);
  }
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)}s`;

/** The longest timeout of gRPC, which has eight digits. */
const maxTimeoutMs = 99_999_999;
