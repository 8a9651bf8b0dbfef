// Error classes. Each kind of error that you would handle differently has its own class.
import { durationMs, timestampDate, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { fromJson } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { errorTable } from "./easel/v1/reasons.js";
import { BadRequestSchema, ErrorInfoSchema, RequestInfoSchema, RetryInfoSchema } from "./google/rpc/error_details_pb.js";
import type { Heartbeat, Render } from "./values.js";

/**
 * Whether the order of a failed call exists. See CreateGeneration in the contract for the exact rules. Keep the idempotency
 * key unless the outcome is "not_placed".
 */
export type OrderOutcome = "unknown" | "not_placed_by_this_call" | "not_placed";

/** The order or render that an error concerns. */
export interface About {
  /** The idempotency key of the order. */
  key?: string;
  generationId?: string;
}

/** The optional properties of a new error. */
interface Parts extends About {
  code?: string;
  raw?: ConnectError | undefined;
}

/** The base class of all errors in this package. */
export class EaselError extends Error {
  /** The gRPC code, such as UNAVAILABLE. */
  readonly code: string;
  /** The name of an ErrorReason, possibly one that this client does not know; empty if the error is not from Easel. */
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** An order's outcome over all its attempts; undefined for calls that are not orders. */
  readonly orderOutcome?: OrderOutcome;
  /** The delay in milliseconds that the server requests before a retry; undefined if it requests none. */
  readonly retryAfter?: number;
  readonly fieldViolations: readonly { field: string; description: string }[];
  readonly requestId: string;
  /** The idempotency key of the order that failed, or of the order whose watch failed; empty for other calls. */
  readonly key: string;
  /** The ID of the render; empty if unknown. */
  readonly generationId: string;
  /** Whether a retry of the call may succeed. */
  readonly isRetryable: boolean = false;
  /** Connect's error with all details from the server; undefined if the client created the error. A printed error omits it. */
  declare readonly raw: ConnectError | undefined;

  constructor(message: string, { code = "UNKNOWN", raw, key = "", generationId = "" }: Parts = {}) {
    super(message);
    Object.defineProperty(this, "raw", { value: raw });
    this.name = new.target.name;
    this.code = code;
    this.key = key;
    this.generationId = generationId;
    const sent = raw ?? new ConnectError("");
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

/** The request is invalid. fieldViolations contains the invalid fields. */
export class InvalidRequest extends EaselError {}
/** The API key or token is missing or rejected. */
export class Unauthenticated extends EaselError {}
/** The caller does not have permission for this call. */
export class PermissionDenied extends EaselError {}
/** The render or model does not exist, or this caller may not see it. */
export class NotFound extends EaselError {}
/** The balance does not cover the price. */
export class InsufficientBalance extends EaselError {}
/** The price is above maxCostCents. */
export class PriceAboveLimit extends EaselError {
  readonly priceCents = this.cents("price_cents");
}
/** The budget of the team or of a label value does not cover the price. The budget is reset at resetTime. */
export class BudgetExceeded extends EaselError {
  readonly priceCents = this.cents("price_cents");
  readonly remainingCents = this.cents("remaining_cents");
  readonly window = this.metadata["window"] ?? "";
  /** The name of the label whose budget is exceeded; empty if no label's budget is exceeded. */
  readonly labelName = this.metadata["label_name"] ?? "";
  /** The value of the label whose budget is exceeded; empty if no label's budget is exceeded. */
  readonly labelValue = this.metadata["label_value"] ?? "";
  readonly resetTime = time(this.metadata["reset_time"]);
}
/** The order's expire time has passed, so Easel does not send the order to the catalog. If orderOutcome is "unknown", an earlier attempt may have placed the order. */
export class OrderExpired extends EaselError {}
/** The API key has reached its daily cap in the catalog. */
export class DailyCapReached extends EaselError {}
/** The idempotency key was used for another order. */
export class IdempotencyKeyReused extends EaselError {}
/** The order may or may not exist. Keep its idempotency key, and send the order again with the same key. */
export class OutcomeUnknown extends EaselError {}
/** The render is not finished, or its result does not exist yet. */
export class NotReady extends EaselError {}
/** The render has no file and never will have one. */
export class NoContent extends EaselError {}
/** The file has changed since the download started. */
export class ContentChanged extends EaselError {}
/** Easel or the catalog is temporarily unavailable. */
export class Unavailable extends EaselError {}
/** The call failed for a problem that only the server's operator can fix. */
export class ServerFault extends EaselError {}
/**
 * The timeout of the call or of its signal has passed. raw is Connect's last error before the timeout. For a watch, heartbeat
 * is the last heartbeat before the timeout.
 */
export class Timeout extends EaselError {
  constructor(
    message: string,
    parts: Parts,
    readonly heartbeat?: Heartbeat,
  ) {
    super(message, parts);
  }
}
/** The caller's signal aborted the call before the timeout. raw is Connect's last error before the abort. */
export class Stopped extends EaselError {}
/** The render is finished but did not succeed. */
export class RenderFailed extends EaselError {
  constructor(
    readonly render: Render,
    key: string,
  ) {
    super(`${render.state}: ${render.failureMessage}`, { key, generationId: render.generationId });
  }
}
/** Downloaded bytes are damaged or missing. */
export class Damaged extends EaselError {
  constructor(message: string) {
    super(message, { code: "DATA_LOSS" });
  }
}

const classes: Record<string, typeof EaselError> = {
  ...{ InvalidRequest, Unauthenticated, PermissionDenied, NotFound, InsufficientBalance, PriceAboveLimit, BudgetExceeded, DailyCapReached },
  ...{ IdempotencyKeyReused, OrderExpired, OutcomeUnknown, NotReady, NoContent, ContentChanged, Unavailable, ServerFault },
};

/**
 * Converts a Connect error to the EaselError for its reason. address is the address of the server. silent is true if the failed
 * attempt received no response.
 */
export function errorOf(raw: ConnectError, address: string, silent: boolean, about: About): EaselError {
  const code = Code[raw.code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase().replace("CANCELED", "CANCELLED");
  const { reason } = new EaselError("", { raw });
  const row = errorTable.reasons[reason] ?? errorTable.codes[code] ?? { class: "Unavailable", again: "if_told" };
  const key = about.key ? ` (idempotency key ${about.key})` : "";
  const error = new (classes[row.class] ?? EaselError)(`${reason || code}: ${plain(raw.rawMessage, address, silent)}${key}`, { code, raw, ...about });
  return Object.assign(error, { isRetryable: row.again === "yes" || (row.again === "if_told" && error.retryAfter !== undefined) });
}

/** Returns a clearer text if the given text reports that the connection to the address failed. Otherwise, it returns the text unchanged. */
function plain(text: string, address: string, silent: boolean): string {
  if (text.includes("wrong version number")) return "server does not speak TLS; use http:// in the address"; // an OpenSSL error
  if (text === "PING timed out" || text === "the connection does not respond" || (silent && text === "the operation timed out")) return `${address} does not respond`;
  return /^(connect|read|write) E[A-Z]+|^getaddrinfo /.test(text) ? `connection to ${address} failed: ${text}` : text;
}

function time(text = ""): Date | undefined {
  try {
    return timestampDate(fromJson(TimestampSchema, text));
  } catch {
    return undefined;
  }
}
