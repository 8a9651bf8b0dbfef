// Orders one render from Easel, watches it until it is finished, and saves its file.
// You can kill the program at any time. To continue with the same order, run the same command again.
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Easel, EaselError } from "@easel-grpc/easel";

const [model, prompt, path] = process.argv.slice(2);
if (!model || !prompt || !path) {
  console.error("usage: render.js MODEL PROMPT FILE");
  process.exit(2);
}
// The address and the API key come from EASEL_ADDR and EASEL_API_KEY.
const easel = new Easel({
  onHeartbeat: ({ typicalRemaining: left }) => console.log("watching:", left ? `${left / 1000} s left` : "nothing new"),
  onRetry: ({ message }) => console.log("retrying:", message),
});
const signal = AbortSignal.timeout(600_000); // aborts the calls that are in progress after ten minutes
try {
  await easel.account({ timeoutMs: 10_000 }); // fails if the address, the key or the certificate is wrong
  const inputs = { prompt };
  const { priceCents } = await easel.quote(model, inputs, { signal });
  console.log("price:", priceCents, "cents");
  // The key is stored before the order is sent, so that a rerun does not order twice.
  if (!existsSync(path + ".key") || readFileSync(path + ".key", "utf8") === "") writeFileSync(path + ".key", randomUUID());
  let { render } = await easel.order(model, inputs, { key: readFileSync(path + ".key", "utf8"), maxCostCents: priceCents, signal });
  console.log("ordered:", render.generationId);
  for await (render of easel.watch(render, { heartbeatMs: 3000, signal })) console.log("watching:", render.state);
  if (render.state === "SUCCEEDED") await easel.download(render, path, { signal });
  rmSync(path + ".key"); // without the key, the next run places a new order
  if (render.state !== "SUCCEEDED") throw new Error(`${render.state}: ${render.failureMessage}`);
} catch (error) {
  console.error("failed:", error instanceof EaselError ? [error.message, ...error.fieldViolations] : error);
  process.exitCode = 1;
}
