// The page's frame: sign-in, navigation between views, and errors.

import { h, field, notice, say, setClock } from './elements.js';
import * as relay from './relay.js';
import { showSpaces, showSpace } from './spaces.js';
import { showTokens } from './tokens.js';
import { showAudit } from './audit.js';

const view = document.getElementById('view');
const nav = document.querySelector('nav');
const leave = document.getElementById('leave');

/** What the token can administer; null before sign-in. */
let access = null;
/** Aborts the background work of the current view. */
let shown = new AbortController();

const routes = [
  [/^#\/spaces$/, 'Spaces', showSpaces],
  [/^#\/spaces\/([A-Za-z0-9._-]{1,64})$/, 'Space', showSpace],
  [/^#\/tokens$/, 'Tokens', showTokens],
  [/^#\/audit$/, 'Audit log', showAudit],
];

/** Shows the view for the address. `moves` is false for the first view and refreshes, which do not move the focus. */
async function route(moves = true) {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  if (moves) notice(null);
  if (!relay.isOpen && !relay.token()) return signIn();
  if (!access) {
    try {
      access = await relay.access();
    } catch (error) {
      return failed(error);
    }
    if (signal.aborted) return undefined;
    setClock(access.time);
  }
  nav.hidden = false;
  leave.hidden = relay.isOpen;
  const [pattern, name, show] = routes.find(([candidate]) => candidate.test(location.hash)) ?? routes[0];
  const [, argument] = pattern.exec(location.hash) ?? [];
  for (const link of nav.querySelectorAll('a')) {
    const isCurrent = location.hash.startsWith(link.hash) || (name === 'Spaces' && link.hash === '#/spaces');
    if (isCurrent) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.title = `${argument ?? name} – Annals relay`;
  const heading = h('h1', { tabindex: '-1' }, argument ?? name);
  const place = h('div', { class: 'view', 'aria-busy': 'true' }, h('p', { class: 'hint' }, 'Asking the relay…'));
  const appear = () => view.replaceChildren(heading, place);
  // On a refresh the old content stays until the relay has answered.
  const stays = !moves && view.querySelector('.view') !== null;
  if (!stays) appear();
  if (moves) heading.focus({ preventScroll: true });
  const frame = { place, heading, access, signal, failed: (error) => failed(error, signal), again: () => route(false) };
  try {
    await show(frame, argument);
    if (signal.aborted) return undefined;
    notice(null);
    if (stays) appear();
  } catch (error) {
    if (!signal.aborted && error.name !== 'AbortError') failed(error, signal);
  }
  place.removeAttribute('aria-busy');
  return undefined;
}

/** Shows a failure. An invalid token leads to the sign-in; a failure that may be temporary is retried. */
function failed(error, signal = shown.signal) {
  if (signal.aborted) return undefined;
  if (!(error instanceof relay.RelayError)) throw error;
  if (error.status === 401 || (error.status === 403 && !access)) return signIn(error);
  notice(error, () => route(false));
  // Removes the placeholder of a view that has not loaded yet.
  view.querySelector('.view[aria-busy]')?.replaceChildren();
  if (error.status === 0 || error.status === 503) {
    const timer = setTimeout(() => route(false), 5000);
    signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
  }
  return undefined;
}

function signIn(error) {
  shown.abort();
  shown = new AbortController();
  relay.setToken(null);
  access = null;
  nav.hidden = true;
  leave.hidden = true;
  document.title = 'Sign in – Annals relay';
  // The field has no name, so that the browser does not store the token outside this tab.
  const input = h('input', { type: 'password', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', required: true });
  const failure = h('p', { class: 'failure', role: 'alert' });
  const form = h('form', { class: 'card sign-in', onsubmit: submit },
    h('h1', {}, 'Sign in'),
    field('Admin token', input, 'It is stored in this tab until the tab is closed, and is sent to this relay only.'),
    failure,
    h('p', { class: 'buttons' }, h('button', { class: 'primary' }, 'Sign in')),
    h('p', { class: 'hint' }, 'No token yet? On the relay’s machine: ', h('code', {}, 'annals relay token create --scope admin --data …')));
  view.replaceChildren(form);
  if (error) failure.textContent = `${error.title}. ${error.advice}`;
  input.focus();

  async function submit(event) {
    event.preventDefault();
    const given = input.value.trim();
    // Characters that a header cannot contain are refused here.
    if (!/^[\x21-\x7e]+$/.test(given)) {
      failure.textContent = 'That is not a token. It begins with ann_ and has no spaces.';
      return;
    }
    failure.textContent = '';
    relay.setToken(given);
    try {
      access = await relay.access();
      setClock(access.time);
      say('Signed in');
      if (location.hash && location.hash !== '#main') await route();
      else location.hash = '#/spaces';
    } catch (refusal) {
      if (!(refusal instanceof relay.RelayError)) throw refusal;
      relay.setToken(null);
      access = null;
      failure.textContent = `${refusal.title}. ${refusal.advice}`;
      input.focus();
      input.select();
    }
  }
}

leave.addEventListener('click', () => {
  signIn();
  say('Signed out');
});
// The skip link is not a view.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  document.getElementById('main').focus();
});
window.addEventListener('hashchange', () => route());
window.addEventListener('online', () => { if (access) route(false); });
route(false);
