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
  /** Gets a line when Easel is away, and when it is back. Without it nothing is logged. */
  logger?: Logger;
}

/** Knows whether Easel is away. */
export class Presence {
  #awaySince: number | undefined;

  constructor(
    readonly address: string,
    readonly hooks: Hooks,
  ) {}

  /** Hears of an error that another attempt follows. Most with a reason are answers. */
  retry(error: EaselError, delayMs: number): void {
    if (!["UNAVAILABLE", "CANCELLED", "ABORTED"].includes(error.code) || !["", "SERVER_DRAINING", "UNAVAILABLE"].includes(error.reason)) this.answered();
    else if (this.#awaySince === undefined) {
      this.#awaySince = performance.now();
      this.hooks.logger?.warn(`Easel is away from ${this.address}, and is tried again: ${error.message}`);
    }
    this.hooks.onRetry?.(error, delayMs);
  }

  /** Hears of every answer. */
  answered(): void {
    if (this.#awaySince === undefined) return;
    this.hooks.logger?.info(`Easel is back at ${this.address} after ${((performance.now() - this.#awaySince) / 1000).toFixed(1)} s`);
    this.#awaySince = undefined;
  }
}

/** The longest back-off, in milliseconds and before jitter. */
export const longest = 10_000;

/** What is special about a wait. */
interface Pause {
  /** How long a server asks to stay away, beside what its error says. */
  asked?: number;
  ends?: readonly string[];
  stopped?: AbortSignal;
  /** Whether it is a read, which has an end. */
  read?: boolean;
  /** Whether no attempt may follow. */
  last?: boolean;
}

/** A server that asks to wait for longer, in milliseconds, is not waited for. */
const longestAsked = 3_600_000;

/** How often a read is made, where the server names a delay and where it names none. */
const mostReads = { asked: 10, unasked: 5 };

/** Counts the attempts of one function. */
export class Attempts {
  failures = 0;
  heartbeat: Heartbeat | undefined;
  #reads = { asked: 1, unasked: 1 };
  #last: EaselError | undefined; // that the end of the time has not made
  #outcome: OrderOutcome = "not_placed_by_this_call"; // of all attempts

  constructor(
    readonly presence: Presence,
    readonly signal?: AbortSignal,
    readonly about: About = {},
  ) {}

  /** What a call takes. */
  get options(): { signal?: AbortSignal } {
    return this.signal ? { signal: this.signal } : {};
  }

  /** Begins the back-off anew. */
  answered(): void {
    this.failures = 0;
    this.#reads = { asked: 1, unasked: 1 };
    this.presence.answered();
  }

  /**
   * Waits before another attempt, with back-off and no less than the server asks, until it is stopped. It throws what no attempt can
   * mend: the errors with the codes of ends, where there are any.
   */
  async pause(cause: unknown, { asked = 0, ends, stopped, read, last }: Pause = {}): Promise<void> {
    if (!(cause instanceof ConnectError)) throw cause;
    const error = this.#error(cause);
    if (!this.signal?.aborted) this.#last = error;
    if (this.signal?.aborted) throw this.#ended(this.#last ?? error);
    if (last || (ends ? ends.includes(error.code) : !error.isRetryable)) throw error;
    const kind = error.retryAfter === undefined ? "unasked" : "asked";
    if (read && ++this.#reads[kind] > mostReads[kind]) throw error;
    const backOff = Math.min(500 * 2 ** Math.min(this.failures++, 8), longest) * (0.5 + Math.random());
    const delay = Math.max(backOff, asked, error.retryAfter ?? 0);
    if (delay > longestAsked) throw error;
    this.presence.retry(error, delay);
    const signals = [this.signal, stopped].filter((one) => one !== undefined);
    await sleep(delay, undefined, { signal: AbortSignal.any(signals) }).catch(() => undefined);
    if (this.signal?.aborted) throw this.#ended(error);
  }

  /** Makes an error that says what is known of the order after all attempts: one may have been taken after another was refused. */
  #error(cause: ConnectError): EaselError {
    const error = errorOf(cause, this.about);
    if (error.orderOutcome !== "not_placed_by_this_call" || this.#outcome !== "unknown") this.#outcome = error.orderOutcome;
    return Object.assign(error, { orderOutcome: this.#outcome });
  }

  /** Makes the error of a signal that has ended the attempts, with the reason of the last one. */
  #ended({ message, cause }: EaselError): EaselError {
    const { upstreamCondition = "", lastError = "" } = this.heartbeat ?? {};
    const heard = this.heartbeat ? `; the last heartbeat: ${upstreamCondition} ${lastError}`.trimEnd() : "";
    const error =
      (this.signal?.reason as Error | undefined)?.name === "TimeoutError"
        ? new Timeout(`not done in time, after ${message}${heard}`, { code: "DEADLINE_EXCEEDED", cause, ...this.about }, this.heartbeat)
        : new Stopped(`stopped by the signal, after ${message}`, { code: "CANCELLED", cause, ...this.about });
    return Object.assign(error, { orderOutcome: this.#outcome });
  }
}
