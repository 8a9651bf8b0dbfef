// Orders one render from Easel, watches it until it is finished, and saves its file.
// It may be killed at any moment: the same command goes on with the same order.
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { createRegistry, toJsonString } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { file_google_rpc_error_details as details } from "@easel-grpc/easel/errors";
import { GenerationService, serviceConfig, State, type Generation } from "@easel-grpc/easel/v1";

type Easel = Client<typeof GenerationService>;

const deadline = AbortSignal.timeout(600_000); // of everything
const heartbeat = 3; // seconds
const lost = [Code.Canceled, Code.Aborted]; // what Connect says of a connection that is lost
const passing = [...lost, Code.Unavailable, Code.Internal, Code.Unknown, Code.ResourceExhausted];

/** Retries unary calls by the service config of the stubs, which Connect does not do by itself. */
const retry: Interceptor = (next) => async (request) => {
  const { service, method } = request;
  const ours = serviceConfig.methodConfig.find(({ name }) => name.some((n) => n.service === service.typeName && n.method === method.name));
  let wait = parseFloat(ours?.retryPolicy.initialBackoff ?? "0");
  for (let attempt = 1; ; attempt++) {
    try {
      return await next(request);
    } catch (error) {
      const { code } = ConnectError.from(error);
      const name = lost.includes(code) ? "UNAVAILABLE" : Code[code].toUpperCase();
      if (!ours?.retryPolicy.retryableStatusCodes.includes(name) || attempt === ours.retryPolicy.maxAttempts) throw error;
      await sleep(1000 * wait * (0.8 + 0.4 * Math.random()), undefined, { signal: request.signal });
      wait = Math.min(wait * ours.retryPolicy.backoffMultiplier, parseFloat(ours.retryPolicy.maxBackoff));
    }
  }
};

function connect(address: string, key: string): Easel {
  const authorize: Interceptor = (next) => (request) => {
    request.header.set("authorization", "Bearer " + key);
    return next(request);
  };
  const transport = createGrpcTransport({
    baseUrl: "http://" + address, // https where the server has a certificate
    interceptors: [authorize, retry],
    pingIntervalMs: 10_000,
    pingTimeoutMs: 5_000,
  });
  return createClient(GenerationService, transport);
}

/** Waits before another attempt, where one is worth it. */
async function again(error: unknown, codes?: Code[]): Promise<void> {
  if (deadline.aborted || !(error instanceof ConnectError) || codes?.includes(error.code) === false) throw error;
  console.log("again:", error.message);
  await sleep(300 + 700 * Math.random());
}

/** Follows a render to its end, over as many streams as it takes. */
async function watch(easel: Easel, render: Generation): Promise<Generation> {
  for (;;) {
    const silence = new AbortController();
    const watchdog = setTimeout(() => silence.abort(), 3000 * heartbeat);
    try {
      const request = { generationId: render.generationId, knownEtag: render.etag, heartbeatInterval: { seconds: BigInt(heartbeat) } };
      for await (const { event } of easel.watchGeneration(request, { signal: AbortSignal.any([silence.signal, deadline]) })) {
        watchdog.refresh();
        if (event.case === "update") render = event.value.generation ?? render;
        const left = event.case === "heartbeat" && event.value.typicalRemaining ? `${event.value.typicalRemaining.seconds} s left` : "";
        console.log("watching:", State[render.state], left);
      }
      return render;
    } catch (error) {
      await again(error); // after any: only at the goal does a stream end without one
    } finally {
      clearTimeout(watchdog);
    }
  }
}

/** Fetches the bytes over as many streams as it takes, and names the file when all are there. */
async function download(easel: Easel, generationId: string, path: string): Promise<void> {
  await using file = await open(path + ".part", "w");
  let [readOffset, etag] = [0n, ""];
  for (;;) {
    try {
      for await (const { chunk } of easel.downloadGeneration({ generationId, readOffset, etag }, { signal: deadline })) {
        if (chunk?.offset !== readOffset || crc32c(chunk.data) !== chunk.crc32c) throw new Error("bytes arrived damaged");
        await file.writeFile(chunk.data);
        readOffset += BigInt(chunk.data.length);
        console.log("downloaded:", Number(readOffset), "bytes");
        etag = chunk.info?.etag ?? etag; // the rest must be of the same bytes
      }
      return await rename(path + ".part", path);
    } catch (error) {
      await again(error, passing);
    }
  }
}

const table = Int32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0x82f63b78 : n >>> 1;
  return n;
});

function crc32c(data: Uint8Array): number {
  let crc = ~0;
  for (const byte of data) crc = (crc >>> 8) ^ (table[(crc ^ byte) & 255] ?? 0);
  return ~crc >>> 0;
}

function storedKey(path: string): string {
  if (!existsSync(path) || readFileSync(path, "utf8") === "") writeFileSync(path, randomUUID());
  return readFileSync(path, "utf8");
}

async function main(model: string, prompt: string, path: string): Promise<void> {
  const easel = connect(process.env["EASEL_ADDR"] ?? "localhost:50051", process.env["EASEL_API_KEY"] ?? "");
  const order = { modelId: model, inputs: { prompt } };
  const { quote } = await easel.quoteGeneration(order, { signal: deadline });
  console.log("price:", Number(quote?.priceCents), "cents");
  // The key is on disk before the order leaves: whatever happens then, it is one order.
  const request = { ...order, idempotencyKey: storedKey(path + ".key"), maxCostCents: quote?.priceCents ?? 0n };
  const { generation } = await easel.createGeneration(request, { signal: deadline });
  if (!generation) throw new Error("the answer has no render");
  console.log("ordered:", generation.generationId);
  const render = await watch(easel, generation);
  if (render.state === State.SUCCEEDED) await download(easel, render.generationId, path);
  await rm(path + ".key"); // the next run is a new order
  if (render.state !== State.SUCCEEDED) throw new Error(`${State[render.state]}: ${render.failureMessage}`);
}

const [model, prompt, path] = process.argv.slice(2);
if (!model || !prompt || !path) {
  console.error("usage: render.js MODEL PROMPT FILE");
  process.exit(2);
}
try {
  await main(model, prompt, path);
} catch (failure) {
  const error = ConnectError.from(failure);
  console.error("failed:", error.message);
  const known = createRegistry(details);
  for (const detail of error.findDetails(known)) {
    const schema = known.getMessage(detail.$typeName);
    if (schema) console.error(`  ${detail.$typeName}:`, toJsonString(schema, detail));
  }
  process.exitCode = 1;
}
process.exit(); // connections are kept open for more
