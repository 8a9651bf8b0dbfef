// Prints each state of every render and each balance, until neither can be watched any more.
import { connect, reason } from "@easel-grpc/easel";
import { ErrorReason, State } from "@easel-grpc/easel/v1";

const easel = connect("http://" + process.env.EASEL_ADDR, process.env.EASEL_API_KEY);
const heartbeatInterval = { seconds: 2n };

async function renders() {
  try {
    for await (const { generationId, state, etag } of easel.watchMany({ heartbeatInterval })) console.log("render:", generationId, State[state], etag);
  } catch (error) {
    console.log("renders:", ErrorReason[reason(error)]);
  }
}

async function account() {
  try {
    for await (const { balanceCents } of easel.watchAccount({ heartbeatInterval })) console.log("balance:", Number(balanceCents));
  } catch (error) {
    console.log("account:", ErrorReason[reason(error)]);
  }
}

await Promise.all([renders(), account()]);
