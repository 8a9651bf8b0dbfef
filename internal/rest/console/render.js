// One render: its result, its inputs, its time line, and the same order as a command or program.
import { call, content, randomKey, watch } from './api.js';
import { age, at, badge, choice, copyButton, duration, h, labelsOf, money, preview, problemBox, promptOf, say, stateName } from './parts.js';
import { traces } from './order.js';

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`; // quotes an argument for a shell

// exact returns the inputs of a render with all digits of their numbers. The API returns a number that no double can represent as
// a string, which looks like a text. The model's fields show which of the strings are numbers.
function exact(inputs, model) {
  const numbers = model.inputFields.filter((f) => ['INPUT_FIELD_TYPE_INTEGER', 'INPUT_FIELD_TYPE_NUMBER'].includes(f.type)).map((f) => f.name);
  const value = (name, given) => (typeof given === 'string' && numbers.includes(name) ? JSON.rawJSON(given) : given);
  return Object.fromEntries(Object.entries(inputs).map(([name, given]) => [name, value(name, given)]));
}

function python(value) {
  if (JSON.isRawJSON(value)) return value.rawJSON;
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`;
  if (value && typeof value === 'object') return `{${Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}: ${python(v)}`).join(', ')}}`;
  return typeof value === 'string' ? JSON.stringify(value) : { true: 'True', false: 'False', null: 'None' }[value] ?? String(value);
}

const programs = {
  curl: (g, order) => `curl --fail-with-body -sS ${location.origin}/v1/generations \\
  -H "Authorization: Bearer $EASEL_API_KEY" \\
  -H "Idempotency-Key: ${order.idempotencyKey}" \\
  -H "Content-Type: application/json" \\
  -d ${quoted(JSON.stringify({ ...order, idempotencyKey: undefined }))}`,
  grpcurl: (g, order) => `grpcurl ${location.protocol === 'https:' ? '' : '-plaintext '}-H "authorization: Bearer $EASEL_API_KEY" \\
  -d ${quoted(JSON.stringify(order))} \\
  "$EASEL_ADDR" easel.v1.GenerationService/CreateGeneration`,
  Python: (g, order, inputs) => `import easel_grpc as easel

client = easel.Client()  # from EASEL_ADDR and EASEL_API_KEY
order = client.order(${JSON.stringify(g.modelId)}, ${python(inputs)}, key="${order.idempotencyKey}"${g.labels && Object.keys(g.labels).length ? `, labels=${python(g.labels)}` : ''})
for render in client.watch(order):
    print(render.state, render.text)`,
};

// example shows the same order in each language, under a new idempotency key. It shows nothing if the model can't be ordered.
function example(g) {
  const code = h('code', {});
  let name = 'curl', order, inputs;
  const show = () => { code.textContent = programs[name](g, order, inputs); };
  const section = h('section.example', { hidden: true, 'aria-label': 'The same order as a program' },
    h('div.title', {}, h('h2', {}, 'The same order'), choice('Language', Object.keys(programs).map((p) => [p, p]), name, (to) => { name = to; show(); }), copyButton(() => code.textContent)),
    h('pre', { tabIndex: 0 }, code));
  call(`/v1/models/${encodeURI(g.modelId).replace(/[?#]/g, encodeURIComponent)}`).then(({ model }) => {
    inputs = exact(g.inputs ?? {}, model);
    const large = Object.values(inputs).some(JSON.isRawJSON); // only inputsJson may contain such a number
    order = { modelId: g.modelId, ...(large ? { inputsJson: JSON.stringify(inputs) } : { inputs }), labels: g.labels, idempotencyKey: randomKey() };
    show();
    section.hidden = false;
  }).catch(() => section.remove());
  return section;
}

async function save(g) {
  const url = URL.createObjectURL(await content(g.generationId));
  const extension = (g.file?.contentType ?? '').split('/')[1]?.split(/[;+]/)[0] ?? (g.text ? 'txt' : 'bin');
  h('a', { href: url, download: `${g.generationId}.${extension}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

// timeline lists the steps of a render. seen is the time at which this page first saw it running.
function timeline(g, seen, remaining) {
  const steps = [['ordered', g.createTime], ['running', seen], [g.terminal ? stateName(g.state) : 'finished', g.terminalTime]]
    .filter(([name, time]) => time || (name === 'finished' && !g.terminal));
  return h('ol.timeline', {}, steps.map(([name, time], n) => h(time ? 'li.done' : 'li', {},
    h('b', {}, name), time ? at(time) : h('span', {}, remaining === undefined ? 'not yet' : `typically ${duration(remaining * 1000)} more`),
    n > 0 && time && steps[n - 1][1] && h('span.note', {}, `after ${duration(new Date(time) - new Date(steps[n - 1][1]))}`))));
}

const row = (name, ...values) => [h('dt', {}, name), h('dd', { dir: 'auto' }, ...values)];

export function render(signal, live, id) {
  const view = h('section', {}, h('p.note', {}, 'Loading …'));
  let g, trace, running, remaining, shown;

  const draw = () => {
    const heading = h('h1', { tabIndex: -1, dir: 'auto' }, promptOf(g) || g.generationId);
    if (shown !== g.etag) view.replaceChildren(
      h('p.crumb', {}, h('a', { href: '#/gallery' }, 'Gallery')),
      h('div.render', {},
        h('figure.large', g.text ? { tabIndex: 0, role: 'region', 'aria-label': 'Text' } : {}, preview(g, Infinity)),
        h('aside.panel', {}, heading,
          h('p.meta', {}, badge(g.state), h(g.state === 'STATE_REFUNDED' ? 's' : 'strong', {}, money(g.costCents)), age(g.createTime)),
          h('div.steps', {}),
          h('div.actions', {}, g.state === 'STATE_SUCCEEDED' && h('button', { type: 'button', onclick: () => save(g).catch((p) => view.prepend(problemBox(p))) }, 'Download'),
            h('a.button.quiet', { href: `#/again/${encodeURIComponent(id)}` }, 'Order again')),
          h('h2', {}, 'Inputs'),
          h('dl', {}, Object.entries(g.inputs ?? {}).map(([name, value]) => row(name, typeof value === 'string' ? value : JSON.stringify(value)))),
          h('h2', {}, 'Record'),
          h('dl', {}, row('model', g.modelId), g.owner && row('owner', g.owner), g.caller && row('caller', g.caller),
            Object.keys(g.labels ?? {}).length > 0 && row('labels', labelsOf(g)),
            row('render', h('code', {}, g.generationId)),
            row('trace ID', h('code', {}, traces.get(id) ?? trace ?? '–')))), // the trace ID of the order if this page placed it, otherwise of the call that read the render
        example(g)));
    shown = g.etag;
    view.querySelector('.steps').replaceChildren(timeline(g, running, remaining));
    document.title = `${promptOf(g) || id} – Easel`;
  };

  const received = (name, data) => {
    const left = data.heartbeat?.typicalRemaining;
    if (left) remaining = parseFloat(left);
    if (name === 'update') {
      if (!data.update.initial) say(`The render has changed: ${stateName(data.update.generation.state)}`);
      g = { ...data.update.generation, labels: g.labels, caller: g.caller, owner: g.owner };
      if (g.state === 'STATE_RUNNING') running ??= g.observeTime;
    }
    if (name === 'update' || left) draw();
  };
  const path = () => `/v1/generations/${encodeURIComponent(id)}:watch?until=WATCH_UNTIL_SETTLED&heartbeatInterval=2s&knownEtag=${encodeURIComponent(g.etag)}`;
  const follow = async () => {
    ({ generation: g, trace } = await call(`/v1/generations/${encodeURIComponent(id)}`, { signal }));
    draw();
    await watch(path, signal, received, live);
    live();
  };
  const open = () => follow().catch((problem) => signal.aborted || view.replaceChildren(h('h1', { tabIndex: -1 }, 'Render'), problemBox(problem, open)));
  open();
  return view;
}
