// The server's address and API key, and the connections to the server.
import { lookup, type LookupAddress } from "node:dns";
import { readFileSync } from "node:fs";
import { constants, type ClientHttp2Stream } from "node:http2";
import { isIP, type LookupFunction } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager, type GrpcTransportOptions } from "@connectrpc/connect-node";

/** The version of this package. */
export const version = "0.0.0"; // `make` replaces this with the release version when it builds the package

/** The server's address and the client's credentials. */
export interface Place {
  /**
   * host:port, http://host:port or https://host:port. Default: EASEL_ADDR, or localhost:50051 if EASEL_ADDR is unset. If the
   * address has no scheme, the client uses TLS. The only exception is a loopback address if EASEL_TLS_CA_FILE is unset.
   */
  address?: string;
  /**
   * An API key or a token. By default, each call reads the key from the file named by EASEL_API_KEY_FILE. If that variable is
   * unset, the default is the value of EASEL_API_KEY.
   */
  apiKey?: string;
  /**
   * Allows the client to send an API key without TLS to a host that is not loopback, for example if a service mesh encrypts the
   * connection. Default: true if EASEL_ALLOW_PLAINTEXT=true.
   */
  allowPlaintext?: boolean;
  /**
   * Options for Connect, such as trusted certificates: `{ nodeOptions: { ca } }`. Without `ca`, the client trusts the
   * certificates in the file named by EASEL_TLS_CA_FILE. If that variable is unset, it trusts the system's certificates.
   */
  grpc?: Partial<Omit<GrpcTransportOptions, "baseUrl" | "sessionManager">>;
}

/** Returns the parameters for the connections to a server. It throws a TypeError if a setting is invalid. */
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
  if (plaintext && roots) throw new TypeError("EASEL_TLS_CA_FILE has no effect if the address has http://; use https://");
  if (plaintext && secret && !loopback && !allowPlaintext) {
    throw new TypeError(`the API key would be sent to ${host} without TLS; use https://, or set allowPlaintext or EASEL_ALLOW_PLAINTEXT=true if a mesh or tunnel encrypts the connection`);
  }
  const newest = () => {
    try {
      if (file) secret = readKey(file);
    } catch {
      // if the file can't be read or has no valid key, the call uses the last valid key
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
  if (!secret) throw new TypeError(`EASEL_API_KEY_FILE: no API key in ${file}`);
  return secret;
}

function checked(secret: string): string {
  if (!/^[!-~]*$/.test(secret)) throw new TypeError("the API key contains a space, a line break or another invalid character");
  return secret;
}

/** Creates a transport that uses all addresses of a host name, and detects dead connections with pings. It does not retry calls. */
export function connection(baseUrl: string, secret: () => string, options: Place["grpc"] = {}): Transport {
  const sign: Interceptor = (next) => (request) => {
    const key = secret();
    if (key) request.header.set("authorization", "Bearer " + key);
    request.header.set("user-agent", "easel-typescript/" + version);
    return next(request);
  };
  const interceptors = [...(options.interceptors ?? []), sign];
  const nodeOptions = { maxSessionMemory: maxSessionMemoryMB, ...options.nodeOptions };
  const sessionManager = new Connections(baseUrl, { pingIntervalMs: 10_000, pingTimeoutMs: 5_000, ...options, nodeOptions });
  return createGrpcTransport({ readMaxBytes: 8 << 20, ...options, sessionManager, baseUrl, interceptors });
}

/**
 * Maximum memory of an HTTP/2 session in megabytes, enough for 60 concurrent orders of 16 MiB. If the unsent bytes of a session
 * exceed this limit, Node resets each stream on which a response arrives. Node's default of 10 MB is too small for a single
 * order of 16 MiB.
 */
const maxSessionMemoryMB = 1024;

type Pings = { pingTimeoutMs: number } & Partial<GrpcTransportOptions>;

/**
 * The connections to the addresses of a host name. Calls use the connections in turn. If a connection can't open a stream for a
 * call, the call tries the next connection. This is safe, because nothing was sent. If a connection did not respond to a
 * call, later calls try it last. The name is resolved again after 30 s, or after a second if a connection did not respond.
 */
class Connections {
  readonly authority;
  readonly #open;
  readonly #resolve;
  #all = new Map<string, Connection>();
  #left = new Map<string, Connection>(); // connections to former addresses of the host name; each is closed when it is idle
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
    // each connection ignores the bytes of streams that it did not open
    for (const some of [this.#all, this.#left]) for (const connection of some.values()) connection.notifyResponseByteRead(...read);
  }

  #refresh() {
    const now = performance.now();
    const failing = [...this.#all.values()].some((one) => one.isLast(now));
    if (now - this.#resolvedAt < (failing ? 1000 : 30_000)) return;
    this.#resolvedAt = now;
    this.#resolving = this.#resolve().then((addresses) => this.#use(addresses));
  }

  /** Returns the connections that a call has not tried yet, in the order in which it will try them. */
  #inTurn(turn: number, tried: Set<Connection>) {
    const now = performance.now();
    return [false, true].flatMap((last) => {
      const some = [...this.#all.values()].filter((one) => one.isLast(now) === last);
      return some.map((_, n) => some[(turn + n) % some.length]!).filter((one) => !tried.has(one));
    });
  }

  /**
   * Opens and closes connections, so that each address has one connection. If the lookup found no address and there are no
   * connections, it opens one connection that resolves the host name itself. Calls then report the resolver's error, if any.
   */
  #use(addresses: LookupAddress[]) {
    if (addresses.length > 0) {
      const known = new Map([...this.#left, ...this.#all]);
      this.#all = new Map(addresses.map((at) => [at.address, known.get(at.address) ?? this.#open(at)]));
      this.#left = new Map([...known].filter(([address, one]) => !this.#all.has(address) && !one.endWhereIdle()));
    } else if (this.#all.size === 0) this.#all.set("", this.#open());
  }
}

/** Returns a lookup function that returns only the given address. */
function only({ address, family }: LookupAddress): LookupFunction {
  return (_name, options, found) => (options.all ? found(null, [{ address, family }]) : found(null, address, family));
}

/**
 * A connection to one address. If its session does not open a stream within three ping timeouts, the session is replaced. This
 * works around a bug in Connect, which pings an idle session before the next call. If another stream or the session closes
 * during this ping, all later calls wait for the ping forever (github.com/connectrpc/connect-es/pull/1746 fixes the case of a
 * closed session).
 */
class Connection {
  readonly #open;
  readonly #limitMs;
  #newest;
  #quietSince = Infinity; // performance.now() at the first call since the last response; Infinity if there was no call
  #lastUntil = 0; // performance.now() at which the mark as unresponsive ends; 0 after a response

  constructor(address: string, pings: Pings) {
    this.#open = () => new Http2SessionManager(address, pings, pings.nodeOptions);
    this.#limitMs = 3 * pings.pingTimeoutMs;
    this.#newest = this.#open();
  }

  /**
   * Reports whether the connection is marked as unresponsive. Calls then try all other connections first. The mark lasts ten
   * seconds. Each call on the connection renews the mark, until a response removes it.
   */
  isLast(now: number): boolean {
    return now < this.#lastUntil;
  }

  /**
   * Opens a stream for a call. It throws an error if the stream does not open within three ping timeouts, or within a second if
   * the call can try another connection.
   */
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
      throw new ConnectError("the connection does not respond", Code.Unavailable);
    });
    return Promise.race([stream, late]);
  }

  notifyResponseByteRead(...read: Parameters<Http2SessionManager["notifyResponseByteRead"]>) {
    this.#newest.notifyResponseByteRead(...read);
  }

  /** Closes the connection if it is idle, and reports whether it is closed. */
  endWhereIdle(): boolean {
    const state = this.#newest.state();
    if (state === "idle") this.#newest.abort(new ConnectError("the name no longer has this address", Code.Canceled));
    return state === "idle" || state === "closed" || state === "error";
  }

  #listen(stream: ClientHttp2Stream) {
    const left = () => this.#unanswered(quietMs);
    stream.once("close", left).once("response", () => {
      stream.off("close", left);
      this.#quietSince = Infinity;
      this.#lastUntil = 0;
    });
    retireWithUnsent(stream);
  }

  /**
   * Marks the connection as unresponsive if it has not responded to any call for at least forMs milliseconds. If this time is
   * shorter, the stream may have closed because the caller canceled its call.
   */
  #unanswered(forMs: number) {
    const now = performance.now();
    if (now - this.#quietSince >= forMs) this.#lastUntil = now + lastMs;
  }

  /**
   * Replaces the session `asked` if a new stream of this session does not open within three ping timeouts. The signal `there`
   * aborts when the stream has opened or failed, and the session is then not replaced.
   */
  #replace(asked: Http2SessionManager, there: AbortSignal) {
    sleep(this.#limitMs, undefined, { signal: there, ref: false })
      .then(() => {
        if (this.#newest === asked) this.#newest = this.#open();
        asked.abort(new ConnectError("the connection does not respond", Code.Unavailable));
      })
      .catch(() => undefined); // the sleep was aborted, because the stream has opened or failed
  }
}

/**
 * Closes the session of a stream if the stream ends before its whole request is sent, for example because the server rejects the
 * request early. It also closes the session if the stream is reset with ENHANCE_YOUR_CALM. Other streams of the session
 * continue, and later calls open a new session. If the session stayed open, Node would count the unsent bytes toward
 * maxSessionMemory.
 */
function retireWithUnsent(stream: ClientHttp2Stream) {
  const { session } = stream;
  const ended = () => {
    if (stream.writableFinished && stream.rstCode !== constants.NGHTTP2_ENHANCE_YOUR_CALM) return;
    session?.on("error", () => undefined).close(); // Connect no longer listens for errors from a closed session
  };
  stream.once("end", ended).once("close", ended);
}

/** Time without a response, in milliseconds, after which a connection is marked as unresponsive. */
const quietMs = 1000;
/** Time in milliseconds for which a connection stays marked as unresponsive. Calls try all other connections first. */
const lastMs = 10_000;
