// The order form, built from the input fields of a model.
import { call, pages, pause, randomKey, session, watch } from './api.js';
import { $, badge, cents, choice, duration, h, money, plainText, preview, problemBox, say, select, stateName } from './parts.js';

export const traces = new Map(); // trace IDs of the orders that this page has placed, by render ID

// The order whose outcome is still unknown, with its idempotency key. It survives a reload of the page.
const pending = {
  get: () => JSON.parse(sessionStorage.getItem('easel.order')),
  set: (order) => sessionStorage.setItem('easel.order', JSON.stringify(order)),
  drop: () => sessionStorage.removeItem('easel.order'),
};

const retried = [0, 409, 429, 503, 504];

// place sends the pending order. It repeats the order with the same idempotency key until the outcome is known.
async function place(signal, interrupted) {
  for (let failures = 0; ;) {
    const order = pending.get();
    try {
      const placed = await call('/v1/generations', { method: 'POST', body: order.body, headers: { 'Idempotency-Key': order.key } });
      pending.drop();
      traces.set(placed.generation.generationId, placed.trace);
      return placed.generation;
    } catch (problem) {
      const outcome = problem.metadata.order_outcome ?? 'unknown';
      if (outcome === 'not_placed' || (outcome === 'not_placed_by_this_call' && !order.uncertain)) {
        pending.drop();
        throw problem;
      }
      pending.set({ ...order, uncertain: true });
      const over = problem.reason === 'SUBMISSION_OUTCOME_UNKNOWN' && problem.retrySeconds === undefined;
      if (over || !retried.includes(problem.http)) throw problem;
      interrupted(problem);
      await pause(problem.retrySeconds ?? Math.min(30, 2 ** failures++), signal);
      if (signal.aborted) throw problem;
    }
  }
}

const plain = /^-?(0|[1-9]\d*)(\.\d+)?$/; // a number in JSON syntax; its digits are sent unchanged

// framed returns the element of a control, with its label, its note and a place for the errors of a request field.
function framed(path, id, name, control, note, required = false) {
  const error = h('p.error', { id: `${id}-error` });
  const element = h('div.field', {}, h('label', { for: id }, name, required && h('i', {}, 'required')), control, note && h('p.note', { id: `${id}-note` }, note), error);
  const fail = (text) => {
    error.textContent = text;
    const inner = $('textarea, select, input', element);
    inner.setAttribute('aria-invalid', String(Boolean(text)));
    inner.setAttribute('aria-errormessage', error.id);
  };
  return { path, element, fail };
}

// field creates the control for an input field, which begins with a given value or the default. Its json method returns the value, or undefined for an empty or default value.
function field(f, changed, given) {
  const id = `input-${f.name}`;
  const name = f.displayName || f.name;
  const kind = f.type.replace('INPUT_FIELD_TYPE_', '');
  const number = kind === 'INTEGER' || kind === 'NUMBER';
  const fallback = f.defaultValue;
  const first = given === undefined || (f.allowedValues.length && !f.allowedValues.includes(given)) ? fallback : given;
  const attributes = { id, name: f.name, required: f.required === true, 'aria-describedby': `${id}-note`, oninput: changed };
  let control, read;
  if (f.allowedValues.length) {
    const values = f.allowedValues.map((v) => [JSON.stringify(v), String(v)]);
    let value = first === undefined ? (f.required ? values[0][0] : '') : JSON.stringify(first);
    const short = values.length < 7 && values.map(([, text]) => text).join('').length < 32;
    if (fallback === undefined && !f.required) values.unshift(['', 'none']);
    const choose = (v) => { value = v; changed(); };
    control = short ? choice(name, values, value, choose, id) : select(values, value, { ...attributes, oninput: (e) => choose(e.target.value) });
    read = () => value || undefined;
  } else if (kind === 'BOOLEAN') {
    control = h('input', { ...attributes, required: false, type: 'checkbox', checked: first === true });
    read = () => String(control.checked);
  } else if (number) {
    const step = kind === 'INTEGER' ? '1' : 'any';
    const limits = { step, min: String(f.minimum ?? ''), max: String(f.maximum ?? '') };
    const typed = h('input', { ...attributes, ...limits, type: 'number', value: String(first ?? '') });
    control = typed;
    if (f.maximum - f.minimum <= 1e4) {
      const span = f.maximum - f.minimum;
      const slider = h('input', { ...limits, type: 'range', step: kind === 'INTEGER' ? '1' : String(span / 100), 'aria-label': name, value: String(first ?? f.minimum) });
      slider.oninput = () => { typed.value = Number(Number(slider.value).toFixed(4)); changed(); };
      typed.oninput = () => { slider.value = typed.value; changed(); };
      control = h('div.ranged', {}, slider, typed);
    }
    read = () => (typed.value === '' ? undefined : plain.test(typed.value) ? typed.value : String(Number(typed.value)));
  } else if (kind === 'STRING') {
    const long = f.name === 'prompt' || (f.upstreamFields?.maxLength ?? 0) > 200;
    control = long ? h('textarea', { ...attributes, rows: 4, dir: 'auto' }, String(first ?? '')) : h('input', { ...attributes, value: String(first ?? ''), dir: 'auto' });
    read = () => (control.value === '' ? undefined : JSON.stringify(control.value));
  } else { // an object, a list, or a type that is newer than this page
    control = h('textarea', { ...attributes, rows: 3, placeholder: 'JSON' }, first === undefined ? '' : JSON.stringify(first));
    read = () => control.value.trim() || undefined;
  }
  const range = number && f.minimum !== undefined && f.maximum !== undefined && f.maximum < 1e9 && `${f.minimum} to ${f.maximum}.`;
  return {
    name: f.name, ...framed(`inputs.${f.name}`, id, name, control, [f.description, range].filter(Boolean).join(' '), f.required),
    filled: () => !f.required || read() !== undefined,
    json: () => { const value = read(); return value === undefined || value === JSON.stringify(fallback) ? undefined : value; },
  };
}

// labelsFrom parses labels such as "project=spring, page=3".
const labelsFrom = (text) => Object.fromEntries(text.split(',').map((l) => l.split(/=(.*)/).map((s) => s.trim())).filter(([name, value]) => name && value));

// again shows the order form with the model, the inputs and the labels of a render.
export const again = (signal, live, id) => order(signal, live, '', call(`/v1/generations/${encodeURIComponent(id)}`, { signal }));

// order shows the order form with a wanted model, or with the order of an earlier render, for which the call is still under way.
export function order(signal, live, wanted, earlier) {
  const fieldset = h('div.fields', {});
  const about = h('p.note', {});
  const price = h('output.price', {}, '–');
  const afford = h('p.note', {});
  const ceiling = h('input', { id: 'ceiling', inputMode: 'decimal', oninput: () => ceiling.setCustomValidity(''), placeholder: 'the price', 'aria-describedby': 'ceiling-note' });
  const labels = h('input', { id: 'labels', placeholder: 'project=spring', dir: 'auto', title: 'Labels such as project=spring, page=3', pattern: '( *[a-z][a-z0-9_.\\-]* *=[^,]+(,|$))*' });
  const expires = h('input', { id: 'expires', type: 'number', min: '1', max: '525600', placeholder: 'never', 'aria-describedby': 'expires-note' });
  const terms = [
    framed('maxCostCents', 'ceiling', 'Ceiling in euros', ceiling, 'Rejected if it costs more.'),
    framed('labels', 'labels', 'Labels', labels, ''),
    framed('expireTime', 'expires', 'Expires after, in minutes', expires, 'Not sent after this time.'),
  ];
  const submit = h('button.primary', { type: 'submit' }, 'Order');
  const outcome = h('div.outcome', { 'aria-live': 'polite' });
  const models = h('div.field', {});
  let model, fields = [], quoted, timer, asking, like;

  const inputsJson = () => `{${fields.map((f) => [f.name, f.json()]).filter(([, v]) => v !== undefined).map(([n, v]) => `${JSON.stringify(n)}:${v}`).join(',')}}`;
  const explain = (problem) => {
    const dear = problem?.reason === 'PRICE_ABOVE_LIMIT' && { field: 'maxCostCents', description: plainText(problem) };
    const violations = dear ? [dear] : problem?.violations ?? [];
    for (const f of [...fields, ...terms]) f.fail(plainText({ message: violations.find((v) => `${v.field}.`.startsWith(`${f.path}.`))?.description ?? '' }));
  };

  // refresh requests the price of the inputs and the balance.
  const refresh = async () => {
    asking?.abort();
    asking = new AbortController();
    if (!model || !fields.every((f) => f.filled())) {
      price.textContent = '–';
      afford.textContent = 'The price appears when all required inputs are filled in.';
      return;
    }
    try {
      const { quote: q } = await call('/v1/generations:quote', { method: 'POST', body: { modelId: model.modelId, inputsJson: inputsJson() }, signal: asking.signal });
      quoted = Number(q.priceCents);
      price.textContent = money(quoted);
      afford.textContent = q.balanceCents === undefined ? 'Charged when the order is accepted.' : q.affordable ? `${money(q.balanceCents)} in the account.` : `The balance of ${money(q.balanceCents)} does not cover it.`;
      explain();
    } catch (problem) {
      if (problem.name === 'AbortError') return;
      price.textContent = '–';
      afford.textContent = problem.message;
      explain(problem);
    }
    price.classList.remove('old');
  };

  // quote requests the price of the inputs shortly after their last change.
  const quote = () => {
    clearTimeout(timer);
    asking?.abort();
    quoted = undefined;
    price.classList.add('old');
    timer = setTimeout(refresh, 350);
  };

  const open = (id) => call(`/v1/models/${encodeURI(id).replace(/[?#]/g, encodeURIComponent)}`, { signal }).then((answer) => {
    ({ model } = answer);
    about.textContent = model.description;
    fields = model.inputFields.map((f) => field(f, quote, id === like?.modelId ? like.inputs?.[f.name] : undefined));
    fieldset.replaceChildren(...fields.map((f) => f.element));
    quote();
  }).catch((problem) => signal.aborted || fieldset.replaceChildren(problemBox(problem, () => open(id))));

  // progress shows a placed order until it is finished.
  const progress = (g) => {
    const began = Date.now();
    const bar = h('progress', { 'aria-label': 'Progress' });
    const text = h('p.meta', {});
    const result = h('figure', {});
    let remaining;
    const draw = () => {
      const elapsed = Date.now() - began;
      text.replaceChildren(badge(g.state), h('span', {}, money(g.costCents)), h('span', {}, duration(elapsed)));
      if (remaining) bar.value = Math.min(0.97, elapsed / (elapsed + Math.max(200, remaining - Date.now())));
    };
    outcome.replaceChildren(bar, text, result, h('a.button', { href: `#/render/${encodeURIComponent(g.generationId)}` }, 'Open the render'));
    outcome.scrollIntoView({ block: 'nearest' });
    draw();
    refresh();
    const path = () => `/v1/generations/${encodeURIComponent(g.generationId)}:watch?heartbeatInterval=1s&knownEtag=${encodeURIComponent(g.etag)}`;
    const received = (name, data) => {
      if (data.heartbeat?.typicalRemaining) remaining = Date.now() + parseFloat(data.heartbeat.typicalRemaining) * 1000;
      g = data.update?.generation ?? g;
      draw();
      if (!g.terminal) return;
      bar.remove();
      result.replaceChildren(preview(g));
      refresh();
      say(`Render ${stateName(g.state)}`);
    };
    watch(path, signal, received, live).then(() => live()).catch((problem) => outcome.append(problemBox(problem)));
  };

  const giveUp = () => h('button.quiet', { type: 'button', onclick: () => { pending.drop(); outcome.replaceChildren(); } }, 'Give up this order');
  const send = async () => {
    submit.disabled = true;
    explain();
    outcome.replaceChildren(h('p.note', {}, 'Ordering …'));
    try {
      progress(await place(signal, (problem) => outcome.replaceChildren(problemBox(problem),
        h('p.note', {}, 'It is not known yet whether the order was placed. It is sent again under the same idempotency key, so it is charged only once.'))));
    } catch (problem) {
      explain(problem);
      const uncertain = pending.get();
      outcome.replaceChildren(problemBox(problem, uncertain ? send : undefined), uncertain ? h('div', {},
        h('p.note', {}, 'The order may exist and may be charged; ask your operator before you order again. Sending this order again under the same idempotency key is safe.'), giveUp()) : '');
    }
    submit.disabled = false;
  };

  const form = h('form.order', { onsubmit: (event) => {
    event.preventDefault();
    if (submit.disabled || pending.get()) return;
    const limit = ceiling.value ? cents(ceiling.value) : quoted;
    ceiling.setCustomValidity(ceiling.value && limit === undefined ? 'An amount such as 0.50' : '');
    if (!ceiling.value && limit === undefined) ceiling.setCustomValidity('Wait for the price, or set a ceiling.');
    if (!form.reportValidity()) return;
    const expireTime = expires.value ? new Date(Date.now() + expires.value * 60_000).toISOString() : undefined;
    pending.set({ key: randomKey(), session: session(), body: { modelId: model.modelId, inputsJson: inputsJson(), labels: labelsFrom(labels.value), maxCostCents: String(limit), expireTime } });
    send();
  } },
  h('div.inputs', {}, models, about, fieldset),
  h('aside.panel', { 'aria-label': 'Price and order' },
    h('h2', {}, 'Price'), price, afford,
    terms.map((term) => term.element), submit, outcome));

  Promise.all([pages('/v1/models', {}, 'models'), earlier]).then(([all, answer]) => {
    like = answer?.generation;
    labels.value = Object.entries(like?.labels ?? {}).map((pair) => pair.join('=')).join(', ');
    if (!all.length) return models.append(h('p.hint', {}, 'There is no model that you may order from.'));
    const selected = all.find((m) => m.modelId === (like?.modelId ?? wanted)) ?? all[0];
    models.append(h('label', { for: 'model' }, 'Model'), select(all.map((m) => [m.modelId, m.displayName || m.modelId]), selected.modelId,
      { id: 'model', onchange: (e) => open(e.target.value) }));
    return open(selected.modelId);
  }).catch((problem) => models.append(problemBox(problem)));
  if (pending.get()?.session === session()) send();
  else if (pending.get()) outcome.append(h('p.note', {}, 'The outcome of an order from an earlier sign-in is unknown. Send it again only if you are the same caller. Another caller would be charged for a second order.'),
    h('button', { type: 'button', onclick: send }, 'Send it again'), giveUp());
  return h('section', {}, h('div.title', {}, h('h1', { tabIndex: -1 }, 'Order')), form);
}
