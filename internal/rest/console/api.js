// Calls to Easel's REST API, including event streams.

export const token = {
  get: () => sessionStorage.getItem('easel.token'),
  set: (value) => sessionStorage.setItem('easel.token', value),
  drop: () => ['easel.token', 'easel.session'].forEach((name) => sessionStorage.removeItem(name)),
};

// randomKey returns an idempotency key. A page that was loaded over plain HTTP has no crypto.randomUUID.
export const randomKey = () => crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');

// session returns the ID of the current sign-in. It prevents an order from being resent with another token.
export const session = () => sessionStorage.getItem('easel.session') ?? (sessionStorage.setItem('easel.session', randomKey()), session());

// Failure is the error of a call, created from a google.rpc.Status and its details.
export class Failure extends Error {
  constructor(status, http, trace) {
    super(status.message || `HTTP ${http}`);
    const detail = (name) => (status.details ?? []).find((d) => d['@type'].endsWith(`google.rpc.${name}`)) ?? {};
    const info = detail('ErrorInfo');
    this.http = http;
    this.reason = info.reason ?? '';
    this.metadata = info.metadata ?? {};
    this.violations = detail('BadRequest').fieldViolations ?? [];
    const delay = detail('RetryInfo').retryDelay;
    this.retrySeconds = delay === undefined ? undefined : parseFloat(delay);
    this.requestId = detail('RequestInfo').requestId ?? trace;
  }

  // Whether a retry of the same stream would fail too, according to the rules of WatchGeneration.
  get permanent() { return [400, 401, 402, 403, 404, 405, 412].includes(this.http); }
}

// unreachable returns the error for a failed connection. It has no status, so the outcome of an order is unknown.
const unreachable = (problem) => new Failure({ message: `Easel can't be reached: ${problem.message}` }, 0);
const traceOf = (response) => response.headers.get('traceparent')?.split('-')[1];

// announced returns a failure. If the token was rejected, it also reports the end of the sign-in.
function announced(failure) {
  if (failure.http === 401) document.dispatchEvent(new CustomEvent('signedout', { detail: failure }));
  return failure;
}

async function request(path, { method = 'GET', body, headers = {}, signal } = {}) {
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body) headers['Content-Type'] = 'application/json';
  const response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) })
    .catch((problem) => { throw signal?.aborted ? problem : unreachable(problem); });
  if (response.ok) return response;
  const status = await response.json().catch(() => ({}));
  throw announced(new Failure(status, response.status, traceOf(response)));
}

// call sends a unary call, and returns the response with the trace ID of the call.
export async function call(path, options) {
  const response = await request(path, options);
  const body = await response.json().catch((problem) => { throw unreachable(problem); });
  return { ...body, trace: traceOf(response) };
}

export const content = async (id, options) => (await request(`/v1/generations/${encodeURIComponent(id)}/content`, options)).blob();

// query returns the query string of the fields that are set. Each value of a list becomes one parameter.
export function query(fields) {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) for (const one of [value].flat()) if (one) all.append(name, one);
  return all.size ? `?${all}` : '';
}

// pages reads all pages of a list and returns all items.
export async function pages(path, fields, member) {
  const all = [];
  for (let pageToken = ''; ;) {
    const page = await call(path + query({ ...fields, pageSize: 1000, pageToken }));
    all.push(...page[member]);
    if (!(pageToken = page.nextPageToken)) return all;
  }
}

const silence = 45_000; // milliseconds: three heartbeat intervals
const statusOfCode = { 3: 400, 5: 404, 7: 403, 9: 400, 12: 405, 16: 401 };

// events reads one event stream until it ends. It calls receive with the name and the data of each event.
async function events(path, options, receive) {
  const quiet = new AbortController();
  let alarm = setTimeout(() => quiet.abort(), silence);
  try {
    const signal = AbortSignal.any([options.signal, quiet.signal]);
    const response = await request(path, { ...options, signal, headers: { Accept: 'text/event-stream' } });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; ;) {
      const { value, done } = await reader.read();
      if (done) throw new Failure({ message: 'The stream was cut off' }, 0);
      clearTimeout(alarm);
      alarm = setTimeout(() => quiet.abort(), silence);
      const blocks = (text + value).split('\n\n');
      text = blocks.pop();
      for (const block of blocks) {
        const field = (name) => block.split('\n').find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        const name = field('event');
        if (name === 'done') return;
        if (name === 'failure') {
          const status = JSON.parse(field('data'));
          throw announced(new Failure(status, statusOfCode[status.code] ?? 503));
        }
        if (name) receive(name, JSON.parse(field('data')));
      }
    }
  } finally {
    clearTimeout(alarm);
    quiet.abort();
  }
}

// watch reads an event stream until it ends with OK or fails permanently. It reconnects after each interruption. It calls state
// with "live" or with the error of an interruption. path is a function, so that a resumed stream can send the last etag.
export async function watch(path, signal, receive, state = () => {}) {
  for (let failures = 0; !signal.aborted;) {
    let delay;
    try {
      return await events(path(), { signal }, (name, data) => {
        failures = 0;
        if (name === 'closing') delay = parseFloat(data.closing.retryDelay);
        state('live');
        receive(name, data);
      });
    } catch (problem) {
      if (signal.aborted) return;
      if (problem.permanent) throw problem;
      state(problem);
      const backoff = Math.min(15, 2 ** failures++) * (0.5 + Math.random() / 2);
      await pause(delay ?? problem.retrySeconds ?? backoff, signal);
    }
  }
}

// pause waits for a number of seconds, or until the signal aborts the wait.
export const pause = (seconds, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, seconds * 1000);
  signal?.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
});
