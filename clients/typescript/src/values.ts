// Converts the contract's messages to plain JavaScript values. Cents and milliseconds are numbers, times are dates, and enum
// values are names. The property raw is the original message. It also contains fields that only a newer server sends. It is not
// enumerable, so it is not printed, copied or converted to JSON. Undefined means that the server sent no value.
import { create, isMessage, toJson, type DescField, type DescMessage, type JsonObject, type JsonValue, type Message } from "@bufbuild/protobuf";
import { durationMs, timestampDate, ValueSchema, type Duration, type Timestamp } from "@bufbuild/protobuf/wkt";
import * as v1 from "./easel/v1/index.js";

/** The names of an enum's values. A value that this client does not know has a name such as unknown(9). */
type Name<E> = Exclude<keyof E & string, "UNSPECIFIED"> | `unknown(${number})`;
/** The state of a render. A render that is QUEUED, RUNNING or UNRECOGNIZED is not finished. */
export type State = Name<typeof v1.State>;
/** The condition that ends a watch: the render is finished (TERMINAL), or its cost is also final (SETTLED). */
export type WatchUntil = "TERMINAL" | "SETTLED";
/** The condition of the catalog, as observed by the server. */
export type UpstreamCondition = Name<typeof v1.UpstreamCondition>;
/** The period of a budget: a day or a month in UTC. */
export type BudgetWindow = Name<typeof v1.BudgetWindow>;
/** The kind of result that a model produces. */
export type OutputKind = Name<typeof v1.OutputKind>;
/** The JSON type of an input. */
export type InputFieldType = Name<typeof v1.InputFieldType>;
/** A property by which orders are grouped. */
export type UsageDimension = Exclude<keyof typeof v1.UsageDimension, "UNSPECIFIED">;

/** The file that a render produced. Easel.download downloads it. */
export interface FileResult {
  contentType: string;
  sizeBytes?: number;
  raw: v1.FileResult;
}

/**
 * The state of a paid render at one point in time. The contract calls a render a generation. Each new state is a new Render
 * object.
 */
export interface Render {
  generationId: string;
  modelId: string;
  state: State;
  upstreamStatus: string;
  terminal: boolean;
  inputs?: JsonObject;
  costCents?: number;
  currencyCode: string;
  file?: FileResult;
  text?: string;
  failureMessage: string;
  createTime?: Date;
  terminalTime?: Date;
  observeTime?: Date;
  etag: string;
  owner: string;
  caller: string;
  labels: Record<string, string>;
  upstreamFields?: JsonObject;
  omittedFields: string[];
  /** Estimated remaining time in milliseconds, as reported in the watch's last heartbeat. */
  typicalRemaining?: number;
  raw: v1.Generation;
}

/** An accepted order. If replayed is true, an earlier order used the key, and the render belongs to that order. */
export interface Order {
  generationId: string;
  key: string;
  replayed: boolean;
  render: Render;
  raw: v1.CreateGenerationResponse;
}

/** The current price of a render. */
export interface Quote {
  priceCents: number;
  currencyCode: string;
  quoteTime?: Date;
  balanceCents?: number;
  affordable?: boolean;
  raw: v1.Quote;
}

/** The budget and the spending of a team, or of a caller without a team, in the current day or month. */
export interface Budget {
  window: BudgetWindow;
  limitCents: number;
  spentCents: number;
  reservedCents: number;
  currencyCode: string;
  startTime?: Date;
  resetTime?: Date;
  raw: v1.Budget;
}

/** The balance, if the caller may see it, and the caller's budgets. */
export interface Account {
  balanceCents?: number;
  currencyCode: string;
  budgets: Budget[];
  observeTime?: Date;
  upstreamFields?: JsonObject;
  omittedFields: string[];
  raw: v1.Account;
}

/** A change to a render or a budget. It has the same ID and type as the webhook for this change. */
export interface EaselEvent {
  eventId: string;
  type: string;
  createTime?: Date;
  owner: string;
  /** The changed render. Undefined if the event reports a budget. */
  render?: Render;
  /** The changed budget. Undefined if the event reports a render. */
  budget?: Budget;
  /** The token for EventsOptions.resumeToken, to continue after this event. Store it after you have processed the event. */
  resumeToken: string;
  raw: v1.Event;
}

/** A model in the catalog. Easel.models may omit the input fields; Easel.model returns them. */
export interface Model {
  modelId: string;
  displayName: string;
  description: string;
  /** The kind of result that the model produces. Undefined if the catalog does not specify it. */
  outputKind?: OutputKind;
  inputFields: InputField[];
  observeTime?: Date;
  upstreamFields?: JsonObject;
  omittedFields: string[];
  raw: v1.Model;
}

/** One input of a model. */
export interface InputField {
  name: string;
  displayName: string;
  description: string;
  /** The JSON type of the value. Undefined if the catalog does not specify it. */
  type?: InputFieldType;
  required?: boolean;
  defaultValue?: JsonValue;
  allowedValues: JsonValue[];
  minimum?: number;
  maximum?: number;
  upstreamFields?: JsonObject;
  raw: v1.InputField;
}

/**
 * The number and the costs of a group of orders, such as all orders of one model on one day. The requested dimensions determine
 * the groups.
 */
export interface UsageRow {
  day: string;
  owner: string;
  caller: string;
  modelId: string;
  labelValue: string;
  orderCount: number;
  failedCount: number;
  unknownCount: number;
  costCents: number;
  refundedCents: number;
  reservedCents: number;
  unconfirmedCents: number;
  currencyCode: string;
  raw: v1.UsageRow;
}

/** A message that a watch receives while there are no updates. */
export interface Heartbeat {
  observeTime?: Date;
  nextPollTime?: Date;
  upstreamCondition: UpstreamCondition;
  consecutivePollFailures: number;
  lastError: string;
  /** The estimated remaining time of the render in milliseconds. */
  typicalRemaining?: number;
  raw: v1.Heartbeat;
}

/** The description of a downloaded file. */
export interface ContentInfo {
  contentType: string;
  sizeBytes?: number;
  fileName: string;
  etag: string;
  raw: v1.ContentInfo;
}

/** Functions that convert messages to values. */
export const values = {
  account: (raw: v1.Account | undefined) => read(v1.AccountSchema, raw) as unknown as Account,
  contentInfo: (raw: v1.ContentInfo) => read(v1.ContentInfoSchema, raw) as unknown as ContentInfo,
  event: (raw: v1.Event, resumeToken: string) => {
    const { generation, ...event } = read(v1.EventSchema, raw);
    return withRaw({ ...event, ...(generation === undefined ? {} : { render: generation }), resumeToken }, raw) as unknown as EaselEvent;
  },
  heartbeat: (raw: v1.Heartbeat) => read(v1.HeartbeatSchema, raw) as unknown as Heartbeat,
  model: (raw: v1.Model | undefined) => read(v1.ModelSchema, raw) as unknown as Model,
  quote: (raw: v1.Quote | undefined) => read(v1.QuoteSchema, raw) as unknown as Quote,
  render: (raw: v1.Generation | undefined) => read(v1.GenerationSchema, raw) as unknown as Render,
  usageRow: (raw: v1.UsageRow) => read(v1.UsageRowSchema, raw) as unknown as UsageRow,
};

function read(schema: DescMessage, raw: Message = create(schema)): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  const members = raw as unknown as Record<string, unknown>;
  for (const field of schema.fields) {
    const choice = field.oneof && (members[field.oneof.localName] as { case?: string; value?: unknown });
    const value = choice ? (choice.case === field.localName ? choice.value : undefined) : members[field.localName];
    const shown = value === undefined ? undefined : plain(field, value);
    if (shown !== undefined) found[field.localName] = shown;
  }
  return withRaw(found, raw);
}

/**
 * Adds the original message to a value as the property raw. The property is not enumerable, because a message can contain
 * bigints, and JSON.stringify throws an error for a bigint.
 */
export function withRaw<V extends object, M>(value: V, raw: M): V & { raw: M } {
  return Object.defineProperty(value, "raw", { value: raw }) as V & { raw: M };
}

function plain(field: DescField, value: unknown): unknown {
  if (field.fieldKind === "enum") return value === 0 ? undefined : (field.enum.value[value as number]?.localName ?? `unknown(${value})`);
  if (field.fieldKind === "list") return (value as Message[]).map((one) => (field.listKind !== "message" ? one : isMessage(one, ValueSchema) ? toJson(ValueSchema, one) : read(field.message, one)));
  if (field.fieldKind === "message") {
    if (field.message.typeName === "google.protobuf.Timestamp") return timestampDate(value as Timestamp);
    if (field.message.typeName === "google.protobuf.Duration") return durationMs(value as Duration);
    if (field.message.typeName === "google.protobuf.Struct") return value;
    if (isMessage(value, ValueSchema)) return toJson(ValueSchema, value);
    if (field.message === v1.TextResultSchema) return (value as v1.TextResult).text;
    return read(field.message, value as Message);
  }
  return typeof value === "bigint" ? Number(value) : value;
}
