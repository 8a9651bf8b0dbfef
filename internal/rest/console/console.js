// The console: it shows the sign-in form, or the view that the fragment of the address names.
import { call, token } from './api.js';
import { $, h, problemBox } from './parts.js';
import { gallery } from './gallery.js';
import { again, order } from './order.js';
import { render } from './render.js';
import { money } from './money.js';

const views = { gallery: [gallery, 'Gallery'], order: [order, 'Order'], again: [again, 'Order'], render: [render, 'Render'], money: [money, 'Money'] };
let current = new AbortController(); // aborts the calls and streams of the current view

// live shows the condition of the view's event stream: "live", an error, or nothing if the view has none.
function live(state) {
  const shown = $('#live');
  shown.hidden = !state;
  shown.className = state === 'live' ? 'on' : 'off';
  shown.title = state?.message ?? '';
  const text = state === 'live' ? 'Live' : 'Reconnecting';
  if (state && shown.textContent !== text) shown.textContent = text;
}

function open() {
  current.abort();
  current = new AbortController();
  live();
  const signedIn = token.get() !== null;
  $('nav').hidden = $('#leave').hidden = !signedIn;
  if (!signedIn) return signIn();
  const [, name, ...rest] = location.hash.split('/');
  const [view, title] = Object.hasOwn(views, name ?? '') ? views[name] : views.gallery;
  const { signal } = current;
  document.title = `${title} – Easel`;
  for (const link of document.querySelectorAll('nav a')) link.ariaCurrent = link.textContent === title ? 'page' : null;
  $('#main').replaceChildren(view(signal, (state) => signal.aborted || live(state), decodeURIComponent(rest.join('/').replace(/%(?![0-9a-f]{2})/gi, '%25'))));
  ($('#main h1') ?? $('#main')).focus({ preventScroll: true });
  scrollTo(0, 0);
}

// signIn asks for the token and checks it with a call that is free of charge.
function signIn(problem) {
  const field = h('input', { id: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false', 'aria-describedby': 'token-note' });
  const form = h('form.signin.panel', { onsubmit: async (event) => {
    event.preventDefault();
    token.set(field.value.trim());
    try {
      await call('/v1/models?pageSize=1');
    } catch (failure) {
      token.drop();
      return signIn(failure);
    }
    document.dispatchEvent(new Event('signedin'));
    return open();
  } },
  h('h1', {}, 'Sign in'),
  problem && problemBox(problem),
  h('div.field', {}, h('label', { for: 'token' }, 'Token or API key'), field,
    h('p.note', { id: 'token-note' }, 'The operator of this server provides the token or key. ', h('code', {}, 'easel dev'), ' prints one. The console keeps it until you close this tab.')),
  h('button.primary', { type: 'submit' }, 'Sign in'));
  document.title = 'Sign in – Easel';
  $('#main').replaceChildren(form);
  field.focus();
}

document.addEventListener('signedout', ({ detail }) => {
  if (token.get() === null) return;
  token.drop();
  open();
  signIn(detail);
});
$('#leave').addEventListener('click', () => { token.drop(); history.replaceState(null, '', '#/gallery'); open(); });
$('.skip').addEventListener('click', (event) => { event.preventDefault(); $('#main').focus(); });
addEventListener('hashchange', open);
open();
