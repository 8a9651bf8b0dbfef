// Parts that several views use: elements, formats, errors, thumbnails.
import { content } from './api.js';

// h creates an element from a name with classes, such as "p.note", its properties and its children.
export function h(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split('.');
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(' ');
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (key in element && typeof value !== 'string') element[key] = value;
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat(3).filter((child) => child !== undefined && child !== false && child !== ''));
  return element;
}

export const $ = (selector, within = document) => within.querySelector(selector);
export const say = (text) => { $('#said').textContent = text; };

const euro = new Intl.NumberFormat('en-IE', { style: 'currency', currency: 'EUR' });
export const money = (cents) => (cents === undefined || cents === null ? '–' : euro.format(Number(cents) / 100));
// cents returns the cents of a typed amount in euros, or undefined.
export const cents = (typed) => (/^\d{1,9}([.,]\d{1,2})?$/.test(typed.trim()) ? Math.round(parseFloat(typed.replace(',', '.')) * 100) : undefined);

const clock = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
export const at = (time) => h('time', { datetime: time, title: time }, clock.format(new Date(time)));
export function duration(milliseconds) {
  const seconds = Math.max(0, milliseconds / 1000);
  for (const [unit, length] of [['d', 86400], ['h', 3600], ['min', 60]]) if (seconds >= length) return `${Math.floor(seconds / length)}\u00a0${unit}`;
  return `${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)}\u00a0s`;
}

const sinceText = (time) => (Date.now() - new Date(time) < 10_000 ? 'now' : `${duration(Date.now() - new Date(time))} ago`);
export const age = (time) => (time ? h('time.age', { datetime: time, title: clock.format(new Date(time)) }, sinceText(time)) : '');
setInterval(() => { for (const one of document.querySelectorAll('time.age')) one.textContent = sinceText(one.dateTime); }, 10_000);

export const stateName = (state) => state.replace('STATE_', '').toLowerCase();
export const badge = (state) => h(`span.state.${stateName(state)}`, {}, stateName(state));
export const promptOf = (g) => g.inputs?.prompt ?? Object.values(g.inputs ?? {}).find((v) => typeof v === 'string') ?? '';
export const labelsOf = (g) => Object.entries(g.labels ?? {}).map(([name, value]) => h('span.label', {}, h('i', {}, name), value));

export function copyButton(text, name = 'Copy') {
  const button = h('button.quiet', { type: 'button', onclick: async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = 'Copied';
    say('Copied');
    setTimeout(() => { button.textContent = name; }, 1500);
  } }, name);
  return button;
}

const metadataText = {
  price_cents: (v) => `price ${money(v)}`, remaining_cents: (v) => `remaining ${money(v)}`,
  window: (v, { label_name: name, label_value: value }) => `budget of the ${v}${name ? ` for ${name}=${value}` : ''}`,
};
const outcomes = { not_placed: 'Nothing was ordered.', not_placed_by_this_call: 'This call ordered nothing.' }; // the order form explains the others

// plainText returns the message of an error with the labels of the order form, and with times in the caller's time zone.
export const plainText = ({ reason, message, metadata: m }) => (reason === 'PRICE_ABOVE_LIMIT'
  ? `The price of ${money(m.price_cents)} exceeds the ceiling of ${money(m.max_cost_cents)}.`
  : message.replace(/^maxCostCents/, 'Ceiling').replace(/^expireTime/, 'Expires after').replace('expire_time', 'expiry')
    .replace(/\d{4}-\d\d-\d\dT[\d:]+Z/g, (time) => clock.format(new Date(time))));

// problemBox describes an error with its message, reason, details and, if a retry makes sense, a button.
export function problemBox(problem, retry) {
  const metadata = problem.metadata ?? {};
  const facts = Object.entries(metadata).filter(([name]) => metadataText[name]).map(([name, value]) => metadataText[name](value, metadata));
  if (problem.retrySeconds !== undefined) facts.push(`retry after ${problem.retrySeconds} s`);
  return h('div.problem', { role: 'alert' },
    h('p', {}, plainText(problem)),
    outcomes[metadata.order_outcome] && h('p', {}, outcomes[metadata.order_outcome]),
    h('p.facts', {}, problem.reason && h('code', {}, problem.reason), ...facts.map((fact) => h('span', {}, fact)),
      problem.requestId && h('span', {}, 'request ', h('code', {}, problem.requestId))),
    retry && h('button', { type: 'button', onclick: retry }, 'Try again'));
}

// choice creates a row of radio buttons. It calls changed with the selected value.
let choices = 0;
export function choice(legend, options, selected, changed, name = `choice${choices++}`) {
  return h('fieldset.choice', {}, h('legend.unseen', {}, legend), options.map(([value, text]) => h('label', {},
    h('input', { type: 'radio', name, value, checked: value === selected, onchange: () => changed(value) }), h('span', {}, text))));
}

export const select = (options, selected, properties) => h('select', properties,
  options.map(([value, text]) => h('option', { value, selected: value === selected }, text)));

// Blob URLs of results by render ID, in the order of their last use. If there are too many, the first is revoked.
const pictures = new Map();
const maxPictures = 150;
const forget = (id) => { pictures.get(id).then(URL.revokeObjectURL, () => {}); pictures.delete(id); };
document.addEventListener('signedin', () => [...pictures.keys()].forEach(forget));
const maxThumbnailBytes = 12 << 20;

function picture(id) {
  const known = pictures.get(id);
  pictures.delete(id);
  const url = known ?? content(id).then((blob) => URL.createObjectURL(blob));
  pictures.set(id, url);
  url.catch(() => pictures.delete(id));
  if (pictures.size > maxPictures) forget(pictures.keys().next().value);
  return url;
}

const isPicture = (g) => g.file && (!g.file.contentType || g.file.contentType.startsWith('image/'));

const near = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    picture(target.dataset.render).then((url) => { target.src = url; }, (problem) => target.replaceWith(h('span.empty.bad', {}, problem.message)));
  }
}, { rootMargin: '300px' });

// preview shows the result of a render. A picture of at most maxBytes is downloaded when it is nearly visible.
export function preview(g, maxBytes = maxThumbnailBytes) {
  if (g.text) return h('blockquote', { dir: 'auto' }, g.text.text);
  if (g.failureMessage) return h('span.empty.bad', { dir: 'auto' }, g.failureMessage);
  if (isPicture(g) && Number(g.file.sizeBytes ?? 0) <= maxBytes) {
    const image = h('img', { alt: promptOf(g), 'data-render': g.generationId });
    image.onload = () => image.classList.add('drawn');
    near.observe(image);
    return image;
  }
  if (g.file) return h('span.empty', {}, `${g.file.contentType ?? 'file'}, ${(Number(g.file.sizeBytes ?? 0) / 1e6).toFixed(1)} MB`);
  return h('span.empty', {}, g.terminal ? stateName(g.state) : h('span.busy', { 'aria-hidden': 'true' }));
}
