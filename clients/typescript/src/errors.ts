// Errors, by what a program does about them.
import { durationMs, timestampDate, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { fromJson } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { errorTable } from "./easel/v1/reasons.js";
import { BadRequestSchema, ErrorInfoSchema, RequestInfoSchema, RetryInfoSchema } from "./google/rpc/error_details_pb.js";
import type { Heartbeat, Render } from "./values.js";

/** What is known of an order that has failed: see CreateGeneration. Only after "not_placed" may its key be forgotten. */
export type OrderOutcome = "unknown" | "not_placed_by_this_call" | "not_placed";

/** What an error is about. */
export interface About {
  /** The idempotency key of its order. */
  key?: string;
  generationId?: string;
}

/** What an error is made of. */
interface Parts extends About {
  code?: string;
  cause?: unknown;
}

/** The base of all errors of this package. */
export class EaselError extends Error {
  /** The gRPC code, such as UNAVAILABLE. */
  readonly code: string;
  /** A name of the contract's ErrorReason, or of a newer one; empty where the failure is not of Easel. */
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** The outcome of an order after all attempts, undefined for other calls. */
  readonly orderOutcome?: OrderOutcome;
  /** How many milliseconds the server asks to wait. */
  readonly retryAfter?: number;
  readonly fieldViolations: readonly { field: string; description: string }[];
  readonly requestId: string;
  /** The idempotency key, where the error is about an order. */
  readonly key: string;
  /** The id of the render, where the error is about one that is there. */
  readonly generationId: string;
  /** Whether the same call again may mend it. */
  readonly isRetryable: boolean = false;

  constructor(message: string, { code = "UNKNOWN", cause, key = "", generationId = "" }: Parts = {}) {
    super(message, { cause });
    this.name = new.target.name;
    this.code = code;
    this.key = key;
    this.generationId = generationId;
    const sent = cause instanceof ConnectError ? cause : new ConnectError("");
    const info = sent.findDetails(ErrorInfoSchema).find(({ domain }) => domain === "easel");
    this.reason = info?.reason ?? "";
    this.metadata = info?.metadata ?? {};
    const { retryDelay } = sent.findDetails(RetryInfoSchema)[0] ?? {};
    const delay = retryDelay ? durationMs(retryDelay) : 0;
    if (delay > 0) this.retryAfter = delay;
    this.fieldViolations = sent.findDetails(BadRequestSchema).flatMap((one) => one.fieldViolations);
    this.requestId = sent.findDetails(RequestInfoSchema)[0]?.requestId ?? "";
  }

  protected cents(name: string): number | undefined {
    const value = this.metadata[name] ?? "";
    return /^\d+$/.test(value) ? Number(value) : undefined;
  }
}

/** The request breaks a rule: mend it. fieldViolations names fields. */
export class InvalidRequest extends EaselError {}
/** The API key or token is missing or not accepted. */
export class Unauthenticated extends EaselError {}
/** The caller may not do this. */
export class PermissionDenied extends EaselError {}
/** There is no such render or model for this caller. */
export class NotFound extends EaselError {}
/** The balance does not cover the price. */
export class InsufficientBalance extends EaselError {}
/** The price is above maxCostCents. */
export class PriceAboveLimit extends EaselError {
  readonly priceCents = this.cents("price_cents");
}
/** The team's budget has no room for the price until resetTime. */
export class BudgetExceeded extends EaselError {
  readonly priceCents = this.cents("price_cents");
  readonly remainingCents = this.cents("remaining_cents");
  readonly window = this.metadata["window"] ?? "";
  readonly resetTime = time(this.metadata["reset_time"]);
}
/** The API key has reached its daily cap in the catalog. */
export class DailyCapReached extends EaselError {}
/** The key stands for another order. */
export class IdempotencyKeyReused extends EaselError {}
/** It is not known whether the order was taken: keep its key, and order again with it. */
export class OutcomeUnknown extends EaselError {}
/** The render has not ended, or its result is not there yet. */
export class NotReady extends EaselError {}
/** The render has no file and will have none. */
export class NoContent extends EaselError {}
/** The bytes are not those that the download has begun with. */
export class ContentChanged extends EaselError {}
/** Easel or the catalog can't answer now. */
export class Unavailable extends EaselError {}
/** The server or its operator has to mend something. */
export class ServerFault extends EaselError {}
/** The time of the caller's signal is over. The cause is the last failure, and heartbeat says how the catalog was. */
export class Timeout extends EaselError {
  constructor(
    message: string,
    parts: Parts,
    readonly heartbeat?: Heartbeat,
  ) {
    super(message, parts);
  }
}
/** The caller's signal has ended it before its time was over. The cause is the last failure. */
export class Stopped extends EaselError {}
/** The render was paid and came to nothing, or was deleted. */
export class RenderFailed extends EaselError {
  constructor(
    readonly render: Render,
    key: string,
  ) {
    super(`${render.state}: ${render.failureMessage}`, { key, generationId: render.generationId });
  }
}
/** Bytes of a download are not those that the server has sent. */
export class Damaged extends EaselError {
  constructor(message: string) {
    super(message, { code: "DATA_LOSS" });
  }
}

const classes: Record<string, typeof EaselError> = {
  ...{ InvalidRequest, Unauthenticated, PermissionDenied, NotFound, InsufficientBalance, PriceAboveLimit, BudgetExceeded, DailyCapReached },
  ...{ IdempotencyKeyReused, OutcomeUnknown, NotReady, NoContent, ContentChanged, Unavailable, ServerFault },
};

/** Gives an error of Connect its class. */
export function errorOf(cause: ConnectError, about: About): EaselError {
  const code = Code[cause.code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase().replace("CANCELED", "CANCELLED");
  const { reason } = new EaselError("", { cause });
  const noTLS = cause.rawMessage.includes("wrong version number"); // OpenSSL reports a plaintext response so
  const message = noTLS ? "server does not speak TLS; use http:// in the address" : cause.rawMessage;
  const row = errorTable.reasons[reason] ?? errorTable.codes[code] ?? { class: "Unavailable", again: "if_told" };
  const error = new (classes[row.class] ?? EaselError)(`${reason || code}: ${message}`, { code, cause, ...about });
  return Object.assign(error, { isRetryable: row.again === "yes" || (row.again === "if_told" && error.retryAfter !== undefined) });
}

function time(text = ""): Date | undefined {
  try {
    return timestampDate(fromJson(TimestampSchema, text));
  } catch {
    return undefined;
  }
}
