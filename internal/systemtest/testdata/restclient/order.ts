// Orders, waits and downloads over REST, with a client that a third-party generator creates from the OpenAPI document.
import createClient from "openapi-fetch";
import type { components, paths } from "./easel.js";

const client = createClient<paths>({
  baseUrl: process.env.EASEL_URL!,
  headers: { authorization: `Bearer ${process.env.EASEL_API_KEY}` },
});

const order: components["schemas"]["CreateGenerationRequest"] = {
  modelId: "studio/landscape",
  inputs: { prompt: "hills", size: "64x40" },
  idempotencyKey: "typescript-1",
  maxCostCents: "50",
};
const { data: ordered, error } = await client.POST("/v1/generations", { body: order });
if (error !== undefined) throw new Error(JSON.stringify(error));

// Members that are always present need no question mark.
const generation: components["schemas"]["Generation"] = ordered.generation;
const generationId: string = generation.generationId;
const path = { generationId };

const { data: waited } = await client.GET("/v1/generations/{generationId}:wait", {
  params: { path, query: { timeout: "30s", until: "WATCH_UNTIL_TERMINAL" } },
});
if (waited === undefined) throw new Error("no answer");
const state: components["schemas"]["State"] = waited.generation.state;
const prompt: unknown = waited.generation.inputs?.["prompt"];

const { data: bytes } = await client.GET("/v1/generations/{generationId}/content", { params: { path }, parseAs: "blob" });
console.log(state, prompt, bytes?.type, (bytes?.size ?? 0) > 0);

const refused = await client.POST("/v1/generations", { body: { ...order, maxCostCents: "-1" } });
console.log(refused.response.status, refused.error?.code, refused.error?.message?.startsWith("maxCostCents: "));
