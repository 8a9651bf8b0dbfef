// Money: the balance, the budgets, and the spending of each day.
import { call, pages } from './api.js';
import { choice, duration, h, money as euros, problemBox } from './parts.js';

const initial = { days: '14', by: 'MODEL', label: '' };
const chosen = { ...initial }; // kept until another caller signs in
document.addEventListener('signedin', () => Object.assign(chosen, initial));
const memberOf = { MODEL: 'modelId', CALLER: 'caller', OWNER: 'owner', LABEL: 'labelValue' };
const dayLength = 86_400_000;
const maxSeries = 5;

const net = (row) => Number(row.costCents) - Number(row.refundedCents);
const sum = (rows, value) => rows.reduce((total, row) => total + Number(typeof value === 'string' ? row[value] : value(row)), 0);

function budget(b) {
  const [limit, spent, reserved] = [b.limitCents, b.spentCents, b.reservedCents].map(Number);
  const left = Math.max(0, limit - spent - reserved);
  const bar = h(left ? 'progress.budget' : 'progress.budget.full', { max: limit || 1, value: limit ? limit - left : 1, 'aria-hidden': 'true' });
  return h('div.figure', {}, h('h2', {}, `Budget of the ${b.window.replace('BUDGET_WINDOW_', '').toLowerCase()}`),
    h('p.price', {}, euros(spent), h('small', {}, ` of ${euros(limit)}`)), bar,
    h('p.note', {}, `${euros(left)} left${reserved ? `, ${euros(reserved)} reserved` : ''}. Resets in ${duration(new Date(b.resetTime) - Date.now())}.`));
}

function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.flat(3));
  return element;
}

// niceStep returns a round number that divides a scale up to top into at most four steps.
function niceStep(top) {
  const power = 10 ** Math.floor(Math.log10(Math.max(top, 4) / 4));
  return power * [1, 2, 5, 10].find((factor) => (top / 4) <= factor * power);
}

// chart draws a bar for each day, with a part for each series.
function chart(days, series, value, width) {
  const [height, left, bottom] = [260, 56, 26];
  const totals = days.map((day) => series.reduce((total, s) => total + value(day, s), 0));
  const step = niceStep(Math.max(...totals));
  const top = Math.max(step, Math.ceil(Math.max(...totals) / step) * step);
  const y = (v) => 8 + (height - bottom - 8) * (1 - v / top);
  const slot = (width - left) / days.length;
  const bar = Math.min(44, slot * 0.66);
  const every = Math.ceil(days.length / Math.floor((width - left) / 64));
  const lines = [];
  const amount = (v) => (step % 100 ? euros(v) : euros(v).replace('.00', ''));
  for (let v = 0; v <= top; v += step) lines.push(svg('line', { x1: left, x2: width, y1: y(v), y2: y(v) }), svg('text', { x: left - 10, y: y(v) + 4, 'text-anchor': 'end' }, amount(v)));
  const bars = days.map((day, n) => {
    let below = 0;
    const x = left + slot * n + (slot - bar) / 2;
    const parts = series.map((s, index) => {
      const v = value(day, s);
      if (v <= 0) return [];
      const rect = svg('rect', { x, width: bar, y: y(below + v), height: Math.max(1, y(below) - y(below + v) - 1), rx: 1.5, class: `s${index}` }, svg('title', {}, `${day}, ${s.name}: ${euros(v)}`));
      below += v;
      return rect;
    });
    const named = (days.length - 1 - n) % every === 0 && svg('text', { x: Math.min(x + bar / 2, width - 22), y: height - 6, 'text-anchor': 'middle' }, new Date(day).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' }));
    return [...parts.flat(), ...(named ? [named] : [])];
  });
  return svg('svg', { class: 'chart', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Spending per day: ${euros(sum(totals, Number))} in ${days.length} days. The table below has the numbers.` }, lines, bars);
}

const columns = [['orders', 'orderCount', String], ['failed', 'failedCount', String], ['unknown', 'unknownCount', String],
  ['cost', 'costCents', euros], ['refunded', 'refundedCents', euros], ['reserved', 'reservedCents', euros], ['net', net, euros]];

function table(series, heading) {
  const cells = (rows) => columns.map(([, member, format]) => h('td', {}, format(sum(rows, member))));
  const all = series.flatMap((s) => s.rows);
  return h('div.scroll', { tabIndex: 0, role: 'region', 'aria-label': 'Numbers' }, h('table', {}, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, heading), columns.map(([name]) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, series.map((s) => h('tr', {}, h('th', { scope: 'row', dir: 'auto' }, s.name), cells(s.rows)))),
    h('tfoot', {}, h('tr', {}, h('th', { scope: 'row' }, 'all'), cells(all)))));
}

// csv returns the rows as CSV (RFC 4180). It puts an apostrophe before values that a spreadsheet would interpret as formulas.
function csv(rows) {
  const members = ['day', memberOf[chosen.by], 'orderCount', 'failedCount', 'unknownCount', 'costCents', 'refundedCents', 'reservedCents', 'unconfirmedCents', 'currencyCode'];
  const cell = (text) => `"${String(text).replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
  return [members, ...rows.map((row) => members.map((m) => row[m]))].map((line) => line.map(cell).join(',')).join('\r\n');
}

export function money(signal) {
  const figures = h('div.figures', {});
  const drawing = h('div.drawing', {});
  const numbers = h('div', {});
  const label = h('input', { 'aria-label': 'Name of the label', placeholder: 'Name of the label', value: chosen.label, hidden: chosen.by !== 'LABEL', onchange: () => { chosen.label = label.value.trim(); load(); } });
  let redraw = () => {};
  const resized = new ResizeObserver(() => redraw());
  resized.observe(drawing);
  signal.addEventListener('abort', () => resized.disconnect());

  const account = () => call('/v1/account', { signal }).then(({ account: a }) => {
    const balance = h('div.figure', {}, h('h2', {}, 'Balance'), h('p.price', {}, euros(a.balanceCents)), h('p.note', {}, 'Shared by all callers that use this API key.'));
    figures.replaceChildren(...(a.balanceCents === undefined ? [] : [balance]), ...a.budgets.map(budget));
  }).catch((problem) => signal.aborted || figures.replaceChildren(problemBox(problem, account)));

  const load = () => {
    redraw = () => {};
    if (chosen.by === 'LABEL' && !chosen.label) {
      drawing.replaceChildren(h('p.hint', {}, 'Enter the name of a label. The orders are grouped by its values.'));
      numbers.replaceChildren();
      return label.focus();
    }
    const today = Math.floor(Date.now() / dayLength);
    const days = Array.from({ length: Number(chosen.days) }, (_, n) => new Date((today - chosen.days + 1 + n) * dayLength).toISOString().slice(0, 10));
    const grouping = { groupBy: ['USAGE_DIMENSION_DAY', `USAGE_DIMENSION_${chosen.by}`], labelName: chosen.by === 'LABEL' ? chosen.label : '' };
    return pages('/v1/usage', { startTime: `${days[0]}T00:00:00Z`, ...grouping }, 'rows').then((rows) => signal.aborted || draw(days, rows))
      .catch((problem) => signal.aborted || drawing.replaceChildren(problemBox(problem, load)));
  };

  const draw = (days, rows) => {
    if (!rows.length) {
      numbers.replaceChildren();
      drawing.replaceChildren(h('div.hint', {}, h('p', {}, 'There are no orders in this period.'), h('a.button', { href: '#/order' }, 'Order a render')));
      return;
    }
    const named = Map.groupBy(rows, (row) => row[memberOf[chosen.by]] || 'none');
    const all = [...named].map(([name, of]) => ({ name, rows: of })).sort((a, b) => sum(b.rows, net) - sum(a.rows, net));
    const series = all.length > maxSeries + 1 ? [...all.slice(0, maxSeries), { name: 'others', rows: all.slice(maxSeries).flatMap((s) => s.rows) }] : all;
    const value = (day, s) => Math.max(0, sum(s.rows.filter((row) => row.day === day), net));
    const legend = h('ul.legend', {}, series.map((s, n) => h('li', {}, svg('svg', { width: 11, height: 11, 'aria-hidden': 'true' }, svg('rect', { width: 11, height: 11, rx: 2, class: `s${n}` })), s.name)));
    redraw = () => drawing.clientWidth && drawing.firstChild?.replaceWith(chart(days, series, value, drawing.clientWidth));
    drawing.replaceChildren(h('div', {}), legend);
    redraw();
    const url = URL.createObjectURL(new Blob([csv(rows)], { type: 'text/csv' }));
    numbers.replaceChildren(h('div.title', {}, h('h2', {}, 'Numbers'), h('a.button.quiet', { href: url, download: `easel-usage-${days[0]}.csv` }, 'Download CSV')), table(all, chosen.by.toLowerCase()));
  };

  // The groups of callers and owners appear only if an order has a caller or an owner. A server without callers has none.
  const grouping = h('div', {});
  pages('/v1/usage', { groupBy: ['USAGE_DIMENSION_CALLER', 'USAGE_DIMENSION_OWNER'] }, 'rows').catch(() => []).then((rows) => {
    const groups = [['MODEL', 'Model'], ['CALLER', 'Caller'], ['OWNER', 'Owner'], ['LABEL', 'Label']].filter(([by]) => !['CALLER', 'OWNER'].includes(by) || rows.some((row) => row[memberOf[by]]));
    grouping.append(choice('Grouped by', groups, chosen.by, (by) => { chosen.by = by; label.hidden = by !== 'LABEL'; load(); }));
  });
  account();
  load();
  return h('section', {}, h('div.title', {}, h('h1', { tabIndex: -1 }, 'Money')), figures,
    h('div.title', {}, h('h2', {}, 'Spending per day'), h('div.filters', {},
      grouping, label,
      choice('Period', [['7', '7 days'], ['14', '14 days'], ['90', '90 days']], chosen.days, (days) => { chosen.days = days; load(); }))),
    drawing, numbers);
}
