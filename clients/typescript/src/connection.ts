// Where a server is, and how it is spoken to.
import { lookup, type LookupAddress } from "node:dns";
import { readFileSync } from "node:fs";
import { isIP, type LookupFunction } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager, type GrpcTransportOptions } from "@connectrpc/connect-node";

/** The version of this package. */
export const version = "0.0.0"; // make puts the version of the release here

/** Where a server is. */
export interface Place {
  /** host:port, http://host:port or https://host:port; without it EASEL_ADDR, else localhost:50051. Without a scheme it is https, except for this machine. */
  address?: string;
  /** An API key or a token; without it that of the file EASEL_API_KEY_FILE, which is read for each call, else EASEL_API_KEY. */
  apiKey?: string;
  /** Whether an API key may go to another host in the clear, where something else protects the way. So does EASEL_ALLOW_PLAINTEXT=true. */
  allowPlaintext?: boolean;
  /** More of the connection, such as the certificates that it trusts: `{ nodeOptions: { ca } }`. */
  grpc?: Partial<Omit<GrpcTransportOptions, "baseUrl" | "sessionManager">>;
}

/** Reads what a caller says of a server. What no attempt could mend is a TypeError. */
export function endpoint({ address = process.env["EASEL_ADDR"]?.trim() || "localhost:50051", apiKey, allowPlaintext = process.env["EASEL_ALLOW_PLAINTEXT"] === "true" }: Place): { baseUrl: string; secret: () => string } {
  const file = apiKey === undefined ? process.env["EASEL_API_KEY_FILE"] : undefined;
  let secret = file ? readKey(file) : checked((apiKey ?? process.env["EASEL_API_KEY"] ?? "").trim());
  const [found, anyScheme, host = "", digits] = /^(?:(https?):\/\/)?(\[[\da-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?\/?$/i.exec(address.trim()) ?? [];
  const scheme = anyScheme?.toLowerCase();
  const port = Number(digits ?? { http: 80, https: 443 }[scheme ?? ""] ?? 0);
  if (!found || port < 1 || port > 65_535) {
    const shown = address.includes("@") ? "" : `, not "${address}"`;
    throw new TypeError(`the address must be host:port, http://host:port or https://host:port${shown}`);
  }
  const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/i.test(host);
  const plaintext = scheme ? scheme === "http" : loopback;
  if (plaintext && secret && !loopback && !allowPlaintext) {
    throw new TypeError(`an API key is not sent to ${host} in the clear: take https://, or allowPlaintext or EASEL_ALLOW_PLAINTEXT=true where something else encrypts`);
  }
  const newest = () => {
    try {
      if (file) secret = readKey(file);
    } catch {
      // the last one stays while the file can't be read
    }
    return secret;
  };
  return { baseUrl: `${plaintext ? "http" : "https"}://${host}:${port}`, secret: newest };
}

function readKey(file: string): string {
  const secret = checked(readFileSync(file, "utf8").trim());
  if (!secret) throw new TypeError("the file of EASEL_API_KEY_FILE is empty");
  return secret;
}

function checked(secret: string): string {
  if (!/^[!-~]*$/.test(secret)) throw new TypeError("the API key has a character that no header may have");
  return secret;
}

/** Connects, to each address of the name. A connection finds out by pings when it is dead. No call is repeated. */
export function connection(baseUrl: string, secret: () => string, options: Place["grpc"] = {}): Transport {
  const sign: Interceptor = (next) => (request) => {
    const key = secret();
    if (key) request.header.set("authorization", "Bearer " + key);
    request.header.set("user-agent", "easel-typescript/" + version);
    return next(request);
  };
  const interceptors = [...(options.interceptors ?? []), sign];
  const sessionManager = new Connections(baseUrl, { pingIntervalMs: 10_000, pingTimeoutMs: 5_000, ...options });
  return createGrpcTransport({ readMaxBytes: 8 << 20, ...options, sessionManager, baseUrl, interceptors });
}

type Pings = { pingTimeoutMs: number } & Partial<GrpcTransportOptions>;

/**
 * A connection to each address of a name. Each call takes the next one, and another where that has no stream for it: nothing of the call
 * has left then. One that left a call unanswered is asked last. The name is resolved again after half a minute, and after a second where a
 * connection has failed.
 */
class Connections {
  readonly authority;
  readonly #open;
  readonly #resolve;
  #all = new Map<string, Connection>();
  #resolving = Promise.resolve();
  #until = 0; // when the name is to be resolved again
  #turn = 0;

  constructor(url: string, pings: Pings) {
    const { hostname, origin } = new URL(url);
    const resolver = (pings.nodeOptions as { lookup?: LookupFunction } | undefined)?.lookup ?? lookup;
    this.authority = origin;
    this.#open = (at?: LookupAddress) => new Connection(url, at ? { ...pings, nodeOptions: { ...pings.nodeOptions, lookup: only(at) } } : pings);
    this.#resolve = () =>
      new Promise<LookupAddress[]>((found) => {
        if (isIP(hostname.replace(/[[\]]/g, "")) || hostname === "localhost") return found([]);
        resolver(hostname, { all: true }, (error, addresses) => found(error ? [] : (addresses as LookupAddress[])));
      });
  }

  async request(...request: Parameters<Connection["request"]>) {
    const connections = await this.#connections();
    const turn = this.#turn++;
    const now = Date.now();
    const inTurn = [false, true].flatMap((last) => {
      const some = connections.filter((one) => one.isLast(now) === last);
      return some.map((_, n) => some[(turn + n) % some.length]!);
    });
    for (let tries = 1; ; tries++) {
      try {
        return await inTurn[tries - 1]!.request(...request);
      } catch (error) {
        this.#until = Math.min(this.#until, Date.now() + 1000);
        if (tries === inTurn.length) throw error;
      }
    }
  }

  notifyResponseByteRead(...read: Parameters<Connection["notifyResponseByteRead"]>) {
    for (const connection of this.#all.values()) connection.notifyResponseByteRead(...read); // those of other streams ignore it
  }

  async #connections() {
    if (Date.now() >= this.#until) {
      this.#until = Date.now() + 30_000;
      this.#resolving = this.#resolve().then((addresses) => this.#use(addresses));
    }
    if (this.#all.size === 0) await this.#resolving;
    return [...this.#all.values()];
  }

  /** Where nothing is found, the connection looks for itself, and its error says so. */
  #use(addresses: LookupAddress[]) {
    if (addresses.length > 0) this.#all = new Map(addresses.map((at) => [at.address, this.#all.get(at.address) ?? this.#open(at)]));
    else if (this.#all.size === 0) this.#all.set("", this.#open());
  }
}

/** A lookup that finds one address alone. */
function only({ address, family }: LookupAddress): LookupFunction {
  return (_name, options, found) => (options.all ? found(null, [{ address, family }]) : found(null, address, family));
}

/**
 * A connection that is replaced where a call gets no stream of it for three ping timeouts. Connect pings a connection that was quiet
 * before it uses it again. It forgets that ping where another stream closes meanwhile, and where the connection does, and then every
 * later call waits for its answer (github.com/connectrpc/connect-es/pull/1746 mends the second).
 */
class Connection {
  readonly #open;
  readonly #limitMs;
  #newest;
  #answers = 0;
  #lastUntil = 0; // 0 while it answers

  constructor(address: string, pings: Pings) {
    this.#open = () => new Http2SessionManager(address, pings, pings.nodeOptions);
    this.#limitMs = 3 * pings.pingTimeoutMs;
    this.#newest = this.#open();
  }

  /** Whether the others are asked first: for ten seconds after a call got no answer. Then one call at a time finds out whether it answers. */
  isLast(now: number): boolean {
    return now < this.#lastUntil;
  }

  async request(...request: Parameters<Http2SessionManager["request"]>) {
    const asked = this.#newest;
    const answers = this.#answers;
    const unanswered = () => {
      if (this.#answers === answers) this.#lastUntil = Date.now() + 10_000; // no other call was answered meanwhile
    };
    const answer = () => {
      this.#answers++;
      this.#lastUntil = 0;
    };
    if (this.#lastUntil > 0) unanswered();
    const stream = asked.request(...request);
    stream.then((had) => had.once("response", answer).once("close", unanswered), unanswered);
    const answered = new AbortController();
    const late = sleep(this.#limitMs, undefined, { signal: answered.signal }).then(() => {
      const error = new ConnectError("the connection does not answer", Code.Unavailable);
      unanswered();
      if (this.#newest === asked) this.#newest = this.#open();
      asked.abort(error);
      stream.then((tooLate) => tooLate.close()).catch(() => undefined);
      throw error;
    });
    return Promise.race([stream, late]).finally(() => answered.abort());
  }

  notifyResponseByteRead(...read: Parameters<Http2SessionManager["notifyResponseByteRead"]>) {
    this.#newest.notifyResponseByteRead(...read);
  }
}
