// A certified OpenID Connect server for tests, panva's oidc-provider, on local http. Its only client gets tokens (JWT) for
// the audience "easel". It prints its address. For each input line it adds a key pair and signs with it; "forget" also
// removes the old key pairs.
import * as readline from "node:readline";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import Provider from "oidc-provider";

const keys = [];

function newKey() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  keys.unshift({ ...privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg: "RS256" });
}

let handler;
const server = createServer((request, response) => handler(request, response));
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const begin = () => {
    handler = new Provider(issuer, {
      jwks: { keys: [...keys] },
      clients: [{ client_id: "poster", client_secret: "of-poster", grant_types: ["client_credentials"], redirect_uris: [], response_types: [] }],
      features: {
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => "urn:easel",
          getResourceServerInfo: (_, resource) => ({ audience: resource, scope: "", accessTokenTTL: 600, accessTokenFormat: "jwt" }),
        },
      },
    }).callback();
  };
  newKey();
  begin();
  console.log(issuer);
  readline.createInterface({ input: process.stdin }).on("line", (line) => {
    if (line === "forget") {
      keys.splice(1);
    } else {
      newKey();
    }
    begin();
    console.log("ready");
  }).on("close", () => process.exit(0));
});
