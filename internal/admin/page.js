'use strict';

// Strings are set as text, so that strings from the catalog or a caller never become markup.
const make = (tag, text, kind) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};
const at = id => document.getElementById(id);

let skew = 0; // difference between the server's clock and the local clock, in milliseconds
const since = time => time ? Math.max(0, (Date.now() + skew - Date.parse(time)) / 1000) : null;
const span = seconds => {
  if (seconds === null) return 'never';
  if (seconds < 10) return seconds.toFixed(1) + ' s';
  if (seconds < 120) return Math.round(seconds) + ' s';
  if (seconds < 7200) return Math.round(seconds / 60) + ' min';
  if (seconds < 172800) return Math.round(seconds / 3600) + ' h';
  return Math.round(seconds / 86400) + ' d';
};
const ago = time => time ? span(since(time)) + ' ago' : 'never';
const ahead = time => {
  const seconds = (Date.parse(time) - Date.now() - skew) / 1000;
  return seconds > 0 ? 'in ' + span(seconds) : 'now';
};
const count = n => n.toLocaleString('en');
const clock = time => new Date(time).toLocaleTimeString('en-GB');

const health = { healthy: 'good', unknown: '', throttled: 'fair', unreachable: 'bad', credential_rejected: 'bad' };

// table shows rows. A column is [heading, makeCell, kind]. makeCell returns a string or an element for an item.
const table = (id, columns, rows, none) => {
  const body = [];
  if (rows.length) {
    const head = make('tr', undefined, 'head');
    for (const [heading, , kind] of columns) head.append(make('th', heading, kind));
    body.push(head);
  } else {
    const row = make('tr');
    row.append(make('td', none, 'none'));
    body.push(row);
  }
  for (const item of rows) {
    const row = make('tr');
    for (const [heading, makeCell, kind] of columns) {
      const td = make('td', undefined, kind);
      td.dataset.heading = heading; // a narrow page shows the heading next to the cell
      td.append(makeCell(item));
      row.append(td);
    }
    body.push(row);
  }
  at(id).replaceChildren(...body);
};

const some = (id, shown, all) => {
  const heading = at(id).closest('section').querySelector('h2');
  heading.querySelector('small')?.remove();
  if (all > 0) heading.append(make('small', shown < all ? `${shown} of ${count(all)}, the most urgent first` : count(all)));
};
const most = 100; // maximum number of rows in a table
const seconds = nanoseconds => Math.max(0, nanoseconds) / 1e9;
const first = (id, rows) => {
  some(id, Math.min(rows.length, most), rows.length);
  return rows.slice(0, most);
};

const verdict = status => {
  const grave = status.concerns.some(c => c.grave);
  const box = at('verdict');
  box.className = grave ? 'bad' : status.concerns.length ? 'fair' : 'good';
  const title = status.concerns.length ? (grave ? 'Something is wrong' : 'Something needs attention') : 'All is well';
  const parts = [make('strong', title)];
  if (status.concerns.length) {
    const list = make('ul');
    list.append(...status.concerns.map(c => make('li', c.text)));
    parts.push(list);
  }
  box.replaceChildren(...parts);
  document.title = (status.concerns.length ? '⚠ ' : '') + 'Easel';
};

const numbers = ({ watching: w, usage }) => {
  const tile = (value, text) => {
    const box = make('div');
    box.append(make('b', value), make('span', text));
    return box;
  };
  const tiles = [
    tile(count(w.watches), 'open watches and waits'),
    tile(count(w.active), 'active renders'),
    tile(w.active ? span(seconds(w.stalest)) : '–', 'longest wait for an answer'),
    tile(count(w.reads + w.sweeps), `polls: ${count(w.reads)} reads, ${count(w.sweeps)} sweeps`),
  ];
  for (const one of usage) {
    const box = tile(count(one.used), `${one.name}, of ${count(one.max)}`);
    const meter = make('meter');
    Object.assign(meter, { max: one.max, high: one.max * 0.8, optimum: 0, value: one.used });
    box.append(meter);
    tiles.push(box);
  }
  at('numbers').replaceChildren(...tiles);
};

// limiters shows the requests that wait for permits, and the closed limiters.
const limiters = ({ limiters: all }) => {
  const lines = Object.entries(all).flatMap(([key, l]) => (l.waiting || []).map(w => ({ key, ...w })));
  at('limiters').hidden = !Object.keys(all).length;
  at('closed').replaceChildren(...Object.entries(all).flatMap(([key, l]) => [
    ...(l.closed ? [make('li', `${key}: the catalog has asked for a pause (429 or 503)${since(l.pausedTill) === 0 ? ', ' + ahead(l.pausedTill) : ''}.`)] : []),
    ...(l.capped ? [make('li', `${key}: the daily cap is reached; orders are rejected.`)] : []),
  ]));
  table('waiting', [
    ['owner', l => l.owner || '(any caller with the key)', 'name'],
    ['class', l => l.class],
    ['requests', l => count(l.count), 'number'],
    ['the oldest', l => ago(l.oldest)],
    ['key', l => make('code', l.key)],
  ], first('waiting', lines.sort((a, b) => Date.parse(a.oldest) - Date.parse(b.oldest))), 'No requests are waiting.');
};

// replicas shows the number of replicas that share the poll rate.
const replicas = ({ watching: w }) => {
  const line = at('replicas');
  line.hidden = w.replicas < 2;
  line.replaceChildren(make('b', `${count(w.replicas)} replicas`), ' divide EASEL_POLL_RATE.');
};

const money = cents => `${cents < 0 ? '-' : ''}${count(Math.trunc(Math.abs(cents) / 100))}.${String(Math.abs(cents) % 100).padStart(2, '0')} EUR`;
const left = budget => {
  if (!budget) return '–';
  const rest = Math.max(0, budget.limitCents - budget.spentCents - budget.reservedCents), share = rest / Math.max(1, budget.limitCents);
  return make('span', `${money(rest)} of ${money(budget.limitCents)}`, share <= 0 ? 'bad' : share <= 0.2 ? 'fair' : '');
};
const period = (owner, name) => owner.budgets?.find(b => b.period === name);

// ledger shows the spending of each owner, and in one line the state of the copies of results. Owners with unknown orders come first.
const ledger = ({ ledger: l, ledgerMeans, copies }) => {
  const state = l.up ? make('span', 'answers', 'good') : make('span', 'does not answer', 'bad');
  at('book').replaceChildren(`The ledger is ${ledgerMeans}. It `, state, `, read ${ago(l.time)}. Orders whose outcome is unknown: ${count(l.unknown)}` + (l.unknown ? `, the oldest ${span(seconds(l.oldestUnknown))} old.` : '.'));
  const c = l.contents;
  at('copies').hidden = !copies;
  at('copies').replaceChildren(`Results that wait to be copied: ${count(c.waiting)}` + (c.waiting ? `, the oldest for ${span(seconds(c.oldest))}. ` : '. '),
    'Results that can’t be copied: ', make('span', count(c.failed), c.failed ? 'fair' : ''), '.');
  const events = Object.fromEntries((l.events || []).map(e => [e.owner, e]));
  const eventsOf = o => events[o.owner] || {};
  table('owners', [
    ['owner', o => o.owner || '(anonymous)', 'name'],
    ['orders', o => count(o.orders), 'number'],
    ['spent', o => money(o.spentCents), 'number'],
    ['refunded', o => money(o.refundedCents), 'number'],
    ['reserved', o => money(o.reservedCents), 'number'],
    ['unconfirmed', o => money(o.unconfirmedCents), 'number'],
    ['left today', o => left(period(o, 'day')), 'number'],
    ['left this month', o => left(period(o, 'month')), 'number'],
    ['unknown', o => o.unknown ? make('span', count(o.unknown), 'fair') : '–', 'number'],
    ['the oldest', o => o.unknown ? span(seconds(o.oldestUnknown)) : '–'],
    ['events not accepted', o => eventsOf(o).pending ? make('span', `${count(eventsOf(o).pending)}, the oldest ${span(seconds(eventsOf(o).oldest))} old`, 'fair') : '–', 'number'],
    ['events abandoned', o => eventsOf(o).givenUp ? make('span', count(eventsOf(o).givenUp), 'bad') : '–', 'number'],
  ], first('owners', (l.owners || []).toSorted((a, b) => b.unknown - a.unknown)), l.named ? 'No orders yet.' : 'Callers forward their own API keys: orders have no owners.');
};

let token = ''; // an operator's token, stored only in this page's memory
at('prove').addEventListener('submit', event => {
  event.preventDefault();
  token = at('token').value;
  at('token').value = '';
  refresh();
});

// ask requests the status. If there is no valid operator's token, it shows the form for a token and returns null.
const ask = async () => {
  const response = await fetch('status.json', { cache: 'no-store', credentials: 'omit', headers: token ? { Authorization: 'Bearer ' + token } : {}, signal: AbortSignal.timeout(5000) });
  const closed = response.status === 401 || response.status === 403;
  at('prove').hidden = !closed;
  document.querySelectorAll('main > section:not(#verdict)').forEach(one => one.classList.toggle('closed', closed));
  if (closed) {
    at('refused').textContent = token || response.status === 403 ? await response.text() : '';
    token = '';
    return null;
  }
  if (!response.ok) throw new Error('status ' + response.status);
  return response.json();
};

const closed = () => {
  const box = at('verdict');
  box.className = 'waits';
  box.replaceChildren(make('strong', 'The status is for operators'));
};

const show = status => {
  const uptime = since(status.began);
  at('build').textContent = `${status.version}${status.revision ? ' (' + status.revision.slice(0, 12) + ')' : ''}, up ${span(uptime)}`;
  verdict(status);
  numbers(status);
  replicas(status);
  limiters(status);
  ledger(status);
  some('keys', status.keys.length, status.watching.keys);
  table('keys', [
    ['key', k => make('code', k.key)],
    ['catalog', k => make('span', k.condition.replace('_', ' '), health[k.condition])],
    ['answered', k => ago(k.answered)],
    ['polls a second', k => k.rate < k.limit ? `${k.rate.toPrecision(2)} of ${k.limit.toPrecision(2)}` : k.limit.toPrecision(2), 'number'],
    ['next polls', k => k.pausedTill && since(k.pausedTill) === 0 ? ahead(k.pausedTill) + ' (paused)' : 'any time'],
    ['renders', k => count(k.active), 'number'],
    ['watches', k => count(k.watches), 'number'],
    ['last sweep', k => ago(k.swept)],
    ['failures', k => k.failures ? String(k.failures) : '–', 'number'],
    ['last error', k => k.lastError || '–', 'long'],
  ], status.keys, 'No watch is open.');
  some('renders', status.generations.length, status.watching.active);
  table('renders', [
    ['render', r => make('code', r.id), 'name'],
    ['model', r => r.model || '–', 'name'],
    ['state', r => r.state || 'unknown'],
    ['age', r => span(since(r.began)), 'number'],
    ['answered', r => ago(r.answered)],
    ['next poll', r => ahead(r.nextPoll)],
    ['watches', r => count(r.watches), 'number'],
    ['key', r => make('code', r.key)],
    ['last error', r => r.failures ? `${r.failures} in a row: ${r.lastError}` : '–', 'long'],
  ], status.generations, 'No renders are active.');
};

const fade = old => document.querySelectorAll('main > section:not(#verdict)').forEach(s => s.classList.toggle('gone', old));

let answered = null, next;
const refresh = async () => {
  try {
    const status = await ask();
    if (!status) return closed();
    skew = Date.parse(status.time) - Date.now();
    answered = Date.now();
    show(status);
    fade(false);
    at('clock').textContent = clock(status.time);
  } catch (error) {
    at('clock').textContent = answered ? 'as of ' + clock(answered) : '';
    const box = at('verdict');
    box.className = 'bad';
    box.replaceChildren(make('strong', 'This server does not answer'), make('div', answered ? 'The data below is old.' : String(error.message)));
    fade(true);
  }
  clearTimeout(next);
  next = setTimeout(refresh, document.hidden ? 10000 : 2000);
};
refresh();
