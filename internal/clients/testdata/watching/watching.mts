// Prints each state of every render and each balance, until neither can be watched any more.
import { Easel, EaselError } from "@easel-grpc/easel";

const easel = new Easel();

async function renders() {
  try {
    for await (const { generationId, state, etag } of easel.watchMany(undefined, { heartbeatMs: 2000 })) console.log("render:", generationId, state, etag);
  } catch (error) {
    console.log("renders:", error instanceof EaselError && error.reason);
  }
}

async function account() {
  try {
    for await (const { balanceCents } of easel.watchAccount({ heartbeatMs: 2000 })) console.log("balance:", balanceCents);
  } catch (error) {
    console.log("account:", error instanceof EaselError && error.reason);
  }
}

await Promise.all([renders(), account()]);
