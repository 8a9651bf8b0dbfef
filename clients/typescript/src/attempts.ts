// The retry logic for calls, with hooks and warnings.
import { setTimeout as sleep } from "node:timers/promises";
import { ConnectError } from "@connectrpc/connect";
import { errorOf, Stopped, Timeout, type About, type EaselError, type OrderOutcome } from "./errors.js";
import type { Heartbeat } from "./values.js";

/** A logger, such as console. */
export interface Logger {
  info(line: string): void;
  warn(line: string): void;
}

/** A client's callbacks and logger. */
export interface Hooks {
  /** Called before each retry, with the error and the delay in milliseconds. */
  onRetry?: (error: EaselError, delayMs: number) => void;
  /** Called with each heartbeat of a watch. */
  onHeartbeat?: (heartbeat: Heartbeat) => void;
  /** Called with each idempotency key that the client creates. The order is sent after onKey has returned or its promise is fulfilled. */
  onKey?: (key: string) => unknown;
  /**
   * Receives a warning if a call keeps failing for five seconds, and an info message when the call recovers. Without onKey, it
   * also receives an info message with each created key. By default, warnings are written to the console, and info messages are
   * discarded.
   */
  logger?: Logger;
}

/** Limits of a call. */
export interface Limits {
  /** Total time in milliseconds for all attempts. Infinity means no limit. */
  timeoutMs?: number;
  /** Number of consecutive failed attempts after which the call fails. */
  attempts?: number;
}

/**
 * The default limits for each kind of call. A stream is a watch or a download. It has no time limit. It fails after 100
 * consecutive failed attempts, which take about 15 minutes.
 */
const kinds = {
  read: { timeoutMs: 60_000, attempts: 5 },
  order: { timeoutMs: 900_000, attempts: 100 },
  stream: { timeoutMs: Infinity, attempts: 100 },
};

/** The state that all calls of a client share. */
export class Shared {
  readonly logger: Logger;
  readonly #warnedAt = new Map<string, number>();

  constructor(
    readonly address: string,
    readonly options: Hooks & Limits,
  ) {
    this.logger = options.logger ?? { info: () => undefined, warn: (line) => console.warn(line) };
  }

  /** Reports whether a warning about a method is due. If so, it records the time of the warning. */
  mayWarn(method: string): boolean {
    const now = performance.now();
    if (now - (this.#warnedAt.get(method) ?? -Infinity) < warnIntervalMs) return false;
    this.#warnedAt.set(method, now);
    return true;
  }
}

/** Time in milliseconds after which a call that keeps failing causes a warning. */
const warnAfterMs = 5000;
/** Minimum interval in milliseconds between warnings about one method. */
const warnIntervalMs = 60_000;

/** Maximum back-off in milliseconds, before jitter. */
export const longest = 10_000;

/** Options of Attempts.pause. */
interface Pause {
  /** Delay in milliseconds that the server requested when it closed the stream. */
  asked?: number;
  /** Codes of the errors that are final. If unset, every error that is not retryable is final. */
  ends?: readonly string[];
  /** A signal that ends the wait before the next attempt. */
  stopped?: AbortSignal;
  /** Whether the error is final, even if it is retryable. */
  last?: boolean;
}

/** Maximum delay in milliseconds before a retry. If the server requests a longer delay, the call fails. */
const longestAsked = 3_600_000;

/** A read fails after this many errors that contain a retry delay. */
const mostAsked = 10;

/** Counts the attempts of one call, and decides whether and when the call is retried. */
export class Attempts {
  failures = 0;
  heartbeat: Heartbeat | undefined;
  readonly signal: AbortSignal | undefined;
  readonly #timeoutMs: number;
  readonly #most: number;
  #end = 0;
  // numbers of errors since the last response; asked counts the errors that contained a retry delay, unasked counts the others
  #spent = { asked: 0, unasked: 0 };
  #failingSince: number | undefined = performance.now(); // time in ms when the failures began; undefined after a response
  #warned = false;
  #last: EaselError | undefined; // last error that was not caused by the timeout or the signal
  #outcome: OrderOutcome | undefined; // outcome of an order over all attempts; undefined for other calls

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

  /** Starts the time limit of the call. The limit restarts for each page of results. */
  begin(): void {
    this.#end = performance.now() + this.#timeoutMs;
  }

  /** The signal and the remaining time, as Connect's options for the next attempt. */
  get options(): { signal?: AbortSignal; timeoutMs?: number } {
    const left = Math.min(Math.max(Math.ceil(this.#end - performance.now()), 1), maxTimeoutMs);
    return { ...(this.signal && { signal: this.signal }), ...(this.#end < Infinity && { timeoutMs: left }) };
  }

  /** Records a successful response and resets the back-off. */
  answered(): void {
    this.failures = 0;
    this.heard();
  }

  /** Records a successful response. It does not reset the back-off. */
  heard(): void {
    if (this.#warned && this.#failingSince !== undefined) this.shared.logger.info(`call recovered: method=${this.method} after=${seconds(performance.now() - this.#failingSince)}`);
    [this.#failingSince, this.#warned, this.#spent] = [undefined, false, { asked: 0, unasked: 0 }];
  }

  /**
   * Waits before the next attempt, for the longer of the back-off and the delay that the server requests. The wait ends early if
   * the signal `stopped` aborts. If the error is final or the limits are reached, the method throws an error instead.
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

  /**
   * Logs a warning if the next attempt starts at least five seconds after #failingSince. It logs no warning if a warning about
   * the method was logged during the last minute.
   */
  #warn(error: EaselError, delay: number): void {
    this.#failingSince ??= performance.now();
    const failing = performance.now() - this.#failingSince;
    if (failing + delay < warnAfterMs || !this.shared.mayWarn(this.method)) return;
    this.#warned = true;
    const { address, logger } = this.shared;
    logger.warn(`call still failing: method=${this.method} address=${address} failing_for=${seconds(failing)} retry_in=${seconds(delay)} error=${error.message}`);
  }

  /**
   * Converts an error from Connect, and sets the order's outcome over all attempts. Once this outcome is "unknown", it remains so
   * until the server reports "not_placed".
   */
  #error(cause: ConnectError): EaselError {
    const error = errorOf(cause, this.shared.address, this.#failingSince !== undefined, this.about);
    const outcome = (error.metadata["order_outcome"] as OrderOutcome | undefined) ?? "unknown";
    if (this.#outcome && (outcome !== "not_placed_by_this_call" || this.#outcome !== "unknown")) this.#outcome = outcome;
    return this.#told(error);
  }

  #told(error: EaselError): EaselError {
    return this.#outcome ? Object.assign(error, { orderOutcome: this.#outcome }) : error;
  }

  /** Returns the error for a call that its timeout or signal ended. The argument is the last error of an attempt. */
  #ended({ message, raw }: EaselError): EaselError {
    const { upstreamCondition = "", lastError = "" } = this.heartbeat ?? {};
    const heard = this.heartbeat ? `; last heartbeat: ${upstreamCondition} ${lastError}`.trimEnd() : "";
    const error =
      !this.signal?.aborted || (this.signal.reason as Error).name === "TimeoutError"
        ? new Timeout(`timed out; last error: ${message}${heard}`, { code: "DEADLINE_EXCEEDED", raw, ...this.about }, this.heartbeat)
        : new Stopped(`stopped by the signal; last error: ${message}`, { code: "CANCELLED", raw, ...this.about });
    return this.#told(error);
  }
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)}s`;

/** Maximum timeout of an attempt in milliseconds. The timeout in gRPC's header has at most eight digits. */
const maxTimeoutMs = 99_999_999;
