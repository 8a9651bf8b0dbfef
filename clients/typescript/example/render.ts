// Orders one render from Easel, watches it until it is finished, and saves its file.
// It may be killed at any moment: the same command goes on with the same order.
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRegistry, toJsonString } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { connect, type WatchOptions } from "@easel-grpc/easel";
import { file_google_rpc_error_details as details } from "@easel-grpc/easel/errors";
import { State } from "@easel-grpc/easel/v1";

const [model, prompt, path] = process.argv.slice(2);
if (!model || !prompt || !path) {
  console.error("usage: render.js MODEL PROMPT FILE");
  process.exit(2);
}
const address = "http://" + (process.env["EASEL_ADDR"] ?? "localhost:50051"); // https where the server has a certificate
const easel = connect(address, process.env["EASEL_API_KEY"]);
const options: WatchOptions = {
  signal: AbortSignal.timeout(600_000), // of everything
  heartbeatMs: 3000,
  onHeartbeat: ({ typicalRemaining: left }) => console.log("watching:", left ? `${left.seconds} s left` : "nothing new"),
  onRetry: ({ message }) => console.log("again:", message),
};
try {
  const inputs = { prompt };
  const { quote } = await easel.generations.quoteGeneration({ modelId: model, inputs }, options);
  console.log("price:", Number(quote?.priceCents), "cents");
  // The idempotency key is on disk before the order leaves: whatever happens then, it is one order.
  if (!existsSync(path + ".key") || readFileSync(path + ".key", "utf8") === "") writeFileSync(path + ".key", randomUUID());
  const request = { modelId: model, inputs, idempotencyKey: readFileSync(path + ".key", "utf8"), maxCostCents: quote?.priceCents ?? 0n };
  let render = await easel.order(request, options);
  console.log("ordered:", render.generationId);
  for await (render of easel.watch(render.generationId, { ...options, knownEtag: render.etag })) console.log("watching:", State[render.state]);
  if (render.state === State.SUCCEEDED) await easel.download(render.generationId, path, options);
  rmSync(path + ".key"); // the next run is a new order
  if (render.state !== State.SUCCEEDED) throw new Error(`${State[render.state]}: ${render.failureMessage}`);
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
