// Where a server is, and how it is spoken to.
import { lookup, type LookupAddress } from "node:dns";
import { readFileSync } from "node:fs";
import type { ClientHttp2Stream } from "node:http2";
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
  /** More of the connection, such as the certificates that it trusts: `{ nodeOptions: { ca } }`. Without it those of the file EASEL_TLS_CA_FILE. */
  grpc?: Partial<Omit<GrpcTransportOptions, "baseUrl" | "sessionManager">>;
}

/** Reads what a caller says of a server. What no attempt could mend is a TypeError. */
export function endpoint({ address = process.env["EASEL_ADDR"]?.trim() || "localhost:50051", apiKey, allowPlaintext = process.env["EASEL_ALLOW_PLAINTEXT"] === "true", grpc = {} }: Place): { baseUrl: string; secret: () => string; grpc: NonNullable<Place["grpc"]> } {
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
  const roots = grpc.nodeOptions && "ca" in grpc.nodeOptions ? undefined : process.env["EASEL_TLS_CA_FILE"];
  const plaintext = scheme ? scheme === "http" : loopback && !roots;
  if (plaintext && roots) throw new TypeError("an address with http:// has no use for EASEL_TLS_CA_FILE: take https://");
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
  const trusting = roots ? { ...grpc, nodeOptions: { ...grpc.nodeOptions, ca: readRoots(roots) } } : grpc;
  return { baseUrl: `${plaintext ? "http" : "https"}://${host}:${port}`, secret: newest, grpc: trusting as NonNullable<Place["grpc"]> };
}

function readRoots(file: string): string {
  const roots = readFileSync(file, "utf8");
  if (!roots.includes("-----BEGIN CERTIFICATE-----")) throw new TypeError(`EASEL_TLS_CA_FILE: no PEM certificate in ${file}`);
  return roots;
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
  #left = new Map<string, Connection>(); // whose addresses the name has no more, until nothing is open there
  #resolving = Promise.resolve();
  #resolvedAt = -Infinity;
  #turn = 0;

  constructor(url: string, pings: Pings) {
    const { hostname, origin } = new URL(url);
    const { lookup: resolver = lookup, family, hints } = (pings.nodeOptions ?? {}) as { lookup?: LookupFunction; family?: number; hints?: number };
    this.authority = origin;
    this.#open = (at?: LookupAddress) => new Connection(url, at ? { ...pings, nodeOptions: { ...pings.nodeOptions, lookup: only(at) } } : pings);
    this.#resolve = () =>
      new Promise<LookupAddress[]>((found) => {
        if (isIP(hostname.replace(/[[\]]/g, "")) || hostname === "localhost") return found([]);
        const options = { all: true, ...(family !== undefined && { family }), ...(hints !== undefined && { hints }) };
        resolver(hostname, options, (error, addresses, one) => {
          if (error) return found([]);
          found(typeof addresses === "string" ? [{ address: addresses, family: one ?? 0 }] : addresses);
        });
      });
  }

  async request(...request: Parameters<Http2SessionManager["request"]>) {
    const turn = this.#turn++;
    const tried = new Set<Connection>();
    for (let failure: unknown; ; ) {
      this.#refresh();
      if (this.#all.size === 0) await this.#resolving;
      else if (tried.size > 0) await Promise.race([this.#resolving, sleep(quietMs, undefined, { ref: false })]);
      const [next, another] = this.#inTurn(turn, tried);
      if (!next) throw failure;
      tried.add(next);
      try {
        return await next.request(another !== undefined, ...request);
      } catch (error) {
        failure = error;
      }
    }
  }

  notifyResponseByteRead(...read: Parameters<Connection["notifyResponseByteRead"]>) {
    for (const some of [this.#all, this.#left]) for (const connection of some.values()) connection.notifyResponseByteRead(...read); // those of other streams ignore it
  }

  #refresh() {
    const now = performance.now();
    const failing = [...this.#all.values()].some((one) => one.isLast(now));
    if (now - this.#resolvedAt < (failing ? 1000 : 30_000)) return;
    this.#resolvedAt = now;
    this.#resolving = this.#resolve().then((addresses) => this.#use(addresses));
  }

  /** The connections for a call that has tried some, the next first. */
  #inTurn(turn: number, tried: Set<Connection>) {
    const now = performance.now();
    return [false, true].flatMap((last) => {
      const some = [...this.#all.values()].filter((one) => one.isLast(now) === last);
      return some.map((_, n) => some[(turn + n) % some.length]!).filter((one) => !tried.has(one));
    });
  }

  /** Where nothing is found, the connection looks for itself, and its error says so. */
  #use(addresses: LookupAddress[]) {
    if (addresses.length > 0) {
      const known = new Map([...this.#left, ...this.#all]);
      this.#all = new Map(addresses.map((at) => [at.address, known.get(at.address) ?? this.#open(at)]));
      this.#left = new Map([...known].filter(([address, one]) => !this.#all.has(address) && !one.endWhereIdle()));
    } else if (this.#all.size === 0) this.#all.set("", this.#open());
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
  #quietSince = Infinity; // when the oldest call began since the last answer
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

  /** Gives a stream for a call; where there is another connection, it has to be there within a second. */
  async request(hasOther: boolean, ...request: Parameters<Http2SessionManager["request"]>) {
    const asked = this.#newest;
    const began = performance.now();
    this.#quietSince = Math.min(this.#quietSince, began);
    if (this.#lastUntil > 0) this.#lastUntil = began + lastMs;
    const stream = asked.request(...request);
    const there = new AbortController();
    stream.then((had) => this.#listen(had), () => this.#unanswered(0)).finally(() => there.abort());
    this.#replace(asked, there.signal);
    const patience = hasOther ? Math.min(quietMs, this.#limitMs) : this.#limitMs;
    const late = sleep(patience, undefined, { signal: there.signal }).then(() => {
      this.#unanswered(0);
      stream.then((tooLate) => tooLate.close()).catch(() => undefined);
      throw new ConnectError("the connection does not answer", Code.Unavailable);
    });
    return Promise.race([stream, late]);
  }

  notifyResponseByteRead(...read: Parameters<Http2SessionManager["notifyResponseByteRead"]>) {
    this.#newest.notifyResponseByteRead(...read);
  }

  /** Closes the connection where no call is open, and reports whether none was. */
  endWhereIdle(): boolean {
    const state = this.#newest.state();
    if (state === "idle") this.#newest.abort(new ConnectError("the name has this address no more", Code.Canceled));
    return state === "idle" || state === "closed" || state === "error";
  }

  #listen(stream: ClientHttp2Stream) {
    const left = () => this.#unanswered(quietMs);
    stream.once("close", left).once("response", () => {
      stream.off("close", left);
      this.#quietSince = Infinity;
      this.#lastUntil = 0;
    });
  }

  /** Notes a call without an answer, where no other was answered meanwhile. A caller may leave early: that says nothing of the connection. */
  #unanswered(forMs: number) {
    const now = performance.now();
    if (now - this.#quietSince >= forMs) this.#lastUntil = now + lastMs;
  }

  /** Replaces a session that has no stream for a call in time. */
  #replace(asked: Http2SessionManager, there: AbortSignal) {
    sleep(this.#limitMs, undefined, { signal: there, ref: false })
      .then(() => {
        if (this.#newest === asked) this.#newest = this.#open();
        asked.abort(new ConnectError("the connection does not answer", Code.Unavailable));
      })
      .catch(() => undefined); // the stream is there
  }
}

/** For how long nothing is answered before others are asked first, and for how long they are. */
const quietMs = 1000;
const lastMs = 10_000;
