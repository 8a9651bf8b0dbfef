// The gallery: all renders, newest first, with live updates. An operator sees the renders of all owners.
import { call, pages, query, watch } from './api.js';
import { $, age, badge, h, labelsOf, money, preview, problemBox, promptOf, say, select, stateName } from './parts.js';

const chosen = { owner: '', model: '', state: '', label: '' }; // kept until another caller signs in
document.addEventListener('signedin', () => Object.keys(chosen).forEach((member) => { chosen[member] = ''; }));
const states = ['QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'REFUNDED'].map((name) => `STATE_${name}`);
const pageSize = 60;

function card(g) {
  return h('li', {}, h('a.card', { href: `#/render/${encodeURIComponent(g.generationId)}` },
    h('figure', {}, preview(g)),
    h('p.prompt', { dir: 'auto' }, promptOf(g) || g.generationId),
    h('p.meta', {}, badge(g.state), h(g.state === 'STATE_REFUNDED' ? 's' : 'span', {}, money(g.costCents)), age(g.createTime)),
    h('p.meta.who', {}, h('span', {}, g.modelId), g.owner && h('span.owner', {}, g.owner), g.caller && h('span', {}, g.caller), labelsOf(g))));
}

const empty = () => h('div.hint', {}, h('h2', {}, 'No renders yet'),
  h('p', {}, 'A render appears here as soon as it is ordered, by this console or by any program.'),
  h('a.button', { href: '#/order' }, 'Order the first render'));
const nothing = () => h('div.hint', {}, h('h2', {}, 'No render matches'), h('p', {}, 'Change the filter above.'));

// filterFields returns the query fields of the filter. The filter of a stream has no states, because states change.
function filterFields(withStates) {
  const [name, ...value] = chosen.label.split('=');
  return {
    'filter.owner': chosen.owner, 'filter.modelId': chosen.model, 'filter.states': withStates ? chosen.state : '',
    ...(value.length && { [`filter.labels[${name.trim()}]`]: value.join('=').trim() }),
  };
}

export function gallery(signal, live) {
  const list = h('ul.cards', { 'aria-label': 'Renders' });
  const notice = h('div', {});
  const end = h('div.end', {});
  const filters = h('form.filters', { 'aria-label': 'Filter', onsubmit: (e) => e.preventDefault() });
  const view = h('section', {}, h('div.title', {}, h('h1', { tabIndex: -1 }, 'Gallery'), filters), notice, list, end);

  let cards, nextPage, current;
  const start = () => {
    current?.abort();
    current = new AbortController();
    signal.addEventListener('abort', () => current.abort());
    cards = new Map();
    nextPage = '';
    list.replaceChildren();
    const run = current.signal;
    more(run).then(() => run.aborted || follow(run));
  };

  const show = (g, order) => {
    const known = cards.get(g.generationId);
    if (g.state === 'STATE_DELETED' || (chosen.state && g.state !== chosen.state)) {
      known?.item.remove();
      cards.delete(g.generationId);
      return;
    }
    if (known?.etag === g.etag) return;
    const item = card(g);
    const focused = known?.item.contains(document.activeElement);
    item.dataset.order = known?.item.dataset.order ?? order;
    if (known) known.item.replaceWith(item);
    else list.insertBefore(item, [...list.children].find((other) => other.dataset.order < order) ?? null);
    if (focused) item.firstChild.focus();
    cards.set(g.generationId, { item, etag: g.etag });
  };

  // more shows the next page of the list.
  let loading;
  const more = async (run) => {
    if (loading === run) return;
    loading = run;
    try {
      const page = await call(`/v1/generations${query({ ...filterFields(true), pageSize, pageToken: nextPage })}`, { signal: run });
      if (run.aborted) return;
      for (const g of page.generations) if (!cards.has(g.generationId)) show(g, g.createTime ?? '');
      nextPage = page.nextPageToken;
      notice.replaceChildren();
    } catch (problem) {
      if (run.aborted) return;
      notice.replaceChildren(problemBox(problem, start));
      nextPage = '';
    }
    loading = undefined;
    reached.unobserve(end); // observing it again calls more if the end is still visible
    reached.observe(end);
    if (!cards.size && !notice.childElementCount) notice.replaceChildren(Object.values(chosen).some(Boolean) ? nothing() : empty());
  };

  // follow shows the updates of all renders that belong on the pages that are already loaded.
  const follow = (run) => watch(() => `/v1/generations:watch${query(filterFields(false))}`, run, (name, data) => {
    if (name !== 'update') return;
    const { generation: g, initial } = data.update;
    const last = list.lastElementChild?.dataset.order ?? '';
    if (cards.has(g.generationId) || !nextPage || (g.createTime ?? '') > last) show(g, g.createTime ?? '');
    if (cards.size && $('.hint', notice)) notice.replaceChildren();
    if (!initial) say(`${promptOf(g)}: ${stateName(g.state)}`);
  }, live).catch((problem) => run.aborted || notice.replaceChildren(problemBox(problem, start)));

  const reached = new IntersectionObserver(([entry]) => { if (entry.isIntersecting && nextPage) more(current.signal); }, { rootMargin: '600px' });
  signal.addEventListener('abort', () => reached.disconnect());

  const choose = (member) => ({ target }) => { if (target.reportValidity()) { chosen[member] = target.value; start(); } };
  const filter = (member, name, options) => select([['', `Every ${member}`], ...options], chosen[member], { 'aria-label': name, onchange: choose(member) });
  filters.append(filter('state', 'State', states.map((s) => [s, stateName(s)])), h('input', { 'aria-label': 'Label', placeholder: 'label=value',
    title: 'A label such as project=spring', value: chosen.label, pattern: '[a-z][a-z0-9_.\\-]*=.*', onchange: choose('label') }));
  pages('/v1/models', {}, 'models').then((models) => $('[aria-label=State]', filters).before(filter('model', 'Model', models.map((m) => [m.modelId, m.displayName || m.modelId]))), () => {});
  pages('/v1/usage', { groupBy: 'USAGE_DIMENSION_OWNER' }, 'rows').then((rows) => {
    if (rows.length < 2) return; // only an operator sees the orders of several owners
    filters.prepend(filter('owner', 'Owner', rows.map(({ owner }) => [owner, owner])));
    list.classList.add('owners');
  }, () => {});
  start();
  return view;
}
