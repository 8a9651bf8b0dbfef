// Makes one call and prints the result.
import { readFileSync } from "node:fs";
import { BudgetExceeded, Easel, EaselError, Timeout, type Render } from "@easel-grpc/easel";

const easel = new Easel({
  onRetry: (error) => console.log("again", error.name),
  onHeartbeat: () => console.log("heartbeat"),
  onKey: () => console.log("key made"),
  logger: { info: console.error, warn: console.error },
});
const timeout = process.env.PLAY_TIMEOUT;
const attempts = process.env.PLAY_ATTEMPTS;
const ended = { ...(timeout && { timeoutMs: 1000 * Number(timeout) }), ...(attempts && { attempts: Number(attempts) }) };
const order = { maxCostCents: 50, labels: { campaign: "winter" }, ...ended };
const inputs = { prompt: "rain" };

function failed(error: unknown) {
  if (error instanceof TypeError && error.message.endsWith("is not a regular file")) return console.log("failed not a regular file");
  if (!(error instanceof EaselError)) throw error;
  const { remainingCents, resetTime } = error instanceof BudgetExceeded ? error : { remainingCents: undefined, resetTime: undefined };
  const after = error.retryAfter === undefined ? "-" : Math.floor(error.retryAfter / 1000);
  const reset = resetTime?.toISOString().replace(".000", "") ?? "-";
  const fields = error.fieldViolations.map(({ field }) => field).join() || "-";
  console.log(
    `failed ${error.name} ${error.reason || "-"} key=${error.key || "-"} outcome=${error.orderOutcome ?? "-"} retryable=${error.isRetryable}` +
      ` after=${after} remaining=${remainingCents ?? "-"} reset=${reset} fields=${fields}`,
  );
  if (error instanceof BudgetExceeded && error.labelName) console.log("label", error.labelName, error.labelValue);
  if (error.requestId) console.log("request", error.requestId);
  if (error instanceof Timeout && error.heartbeat) console.log("last", error.heartbeat.lastError);
}

async function show(renders: AsyncIterable<Render> | Render[]) {
  for await (const { generationId, state, etag } of renders) console.log("render", generationId, state, etag);
  console.log("ended");
}

const calls: Record<string, (...names: string[]) => Promise<unknown>> = {
  async order(...keys) {
    for (const key of keys) {
      const placed = easel.order("studio/landscape", inputs, key === "-" ? order : { ...order, key });
      await placed.then(({ generationId, key, replayed }) => console.log("placed", generationId, key, replayed)).catch(failed);
    }
  },
  run: (key) => easel.run("studio/landscape", inputs, { ...order, key: key! }),
  async watch(...ids) {
    for (const id of ids) await show(easel.watch(id, ended)).catch(failed);
  },
  many: (...ids) => show(easel.watchMany(ids, ended)),
  all: () => show(easel.watchMany(undefined, ended)),
  async "read account"() {
    console.log("balance", (await easel.account(ended)).balanceCents);
    console.log("ended");
  },
  async models() {
    for await (const { modelId, outputKind, inputFields } of easel.models(ended)) console.log("model", modelId, outputKind, inputFields.length);
    console.log("ended");
  },
  async model(id) {
    const { inputFields } = await easel.model(id!, ended);
    for (const { name, type, required, defaultValue, allowedValues, maximum } of inputFields) console.log("input", name, type, `${required} ${defaultValue} ${allowedValues.length} ${maximum}`);
    console.log("ended");
  },
  async quote() {
    const { priceCents, balanceCents, affordable } = await easel.quote("studio/landscape", inputs, ended);
    console.log(`quote ${priceCents} ${balanceCents} ${affordable}`);
    console.log("ended");
  },
  async get(id) {
    await show([await easel.get(id!, ended)]);
  },
  async wait(id) {
    await show([await easel.wait(id!, ended)]);
  },
  async delete(id) {
    await easel.delete(id!, ended);
    console.log("ended");
  },
  list: () => show(easel.list({ labels: { campaign: "winter" }, ...ended })),
  async usage() {
    for await (const { modelId, orderCount, costCents } of easel.usage(ended)) console.log("usage", modelId, orderCount, costCents);
    console.log("ended");
  },
  async download(id, path) {
    await easel.download(id!, path!, ended);
    console.log("file", readFileSync(path!, "utf8"));
    console.log("ended");
  },
};

const [call, ...names] = process.argv.slice(2);
await calls[call!]!(...names).catch(failed);
