// Tokens and their permissions. A secret is shown once, after its creation.

import { h, confirm, dialog, field, now, options, say, setClock, table, when } from './elements.js';
import * as relay from './relay.js';

const LIVES = [['86400', 'for a day'], ['2592000', 'for 30 days'], ['7776000', 'for 90 days'], ['31536000', 'for a year'], ['', 'until it is revoked']];
const SCOPES = [['read', 'read: pull and watch'], ['write', 'write: also push'], ['admin', 'admin: also this page']];

export async function showTokens({ place, access, signal, failed }) {
  const list = h('div');
  const make = h('button', { type: 'button', class: 'primary', onclick: () => makeToken(access, refresh) }, 'Create a token');
  await load();
  place.replaceChildren(h('p', { class: 'buttons' }, make), list);

  async function load() {
    const answer = await relay.tokens();
    if (signal.aborted) return;
    setClock(answer.time);
    // Expired and revoked tokens come last.
    const isOver = (token) => token.revoked !== undefined || (token.expires !== undefined && token.expires <= now());
    const tokens = answer.tokens.toSorted((one, other) => isOver(one) - isOver(other) || other.id - one.id);
    const rows = tokens.map((token) => [
      h('span', {}, h('strong', {}, token.label || 'without a label'), h('span', { class: 'id' }, `no. ${token.id}`)),
      token.space ?? 'all spaces', token.scope, valid(token, isOver(token)), when(token.created), isOver(token) ? '' : revoke(token),
    ]);
    list.replaceChildren(rows.length === 0 ? h('p', { class: 'empty' }, 'No tokens yet.')
      : h('div', { class: 'card' }, table('Tokens', ['Token', 'For', 'Scope', 'Valid', 'Created', 'Actions'], rows)));
  }

  async function refresh() {
    try {
      await load();
    } catch (error) {
      failed(error);
    }
  }

  function valid(token, isOver) {
    if (token.revoked !== undefined) return h('span', {}, h('span', { class: 'tag' }, 'revoked'), ' ', when(token.revoked));
    if (token.expires === undefined) return 'until revoked';
    return isOver ? h('span', {}, h('span', { class: 'tag' }, 'expired'), ' ', when(token.expires)) : h('span', {}, 'ends ', when(token.expires));
  }

  function revoke(token) {
    const called = token.label || `no. ${token.id}`;
    const own = token.id === access.token;
    return h('button', {
      type: 'button', 'aria-label': `Revoke ${called}`,
      onclick: () => confirm(`Revoke ${called}?`, [
        'The relay refuses it within a second. Its users need another token. This cannot be undone.',
        ...(own ? ['It is the token you are signed in with: you will be signed out.'] : []),
      ], 'Revoke', async () => {
        await relay.revoke(token.id);
        say(`${called} is revoked`);
        await refresh();
        make.focus();
      }),
    }, 'Revoke');
  }
}

function makeToken(access, made) {
  const label = h('input', { type: 'text', maxlength: '128', autocomplete: 'off', autofocus: true });
  const space = h('input', {
    type: 'text', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', pattern: '[A-Za-z0-9._\\-]{1,64}', value: access.space ?? '',
    readonly: Boolean(access.space),
  });
  const scope = h('select', {}, options(SCOPES, 'write'));
  const life = h('select', {}, options(LIVES, '7776000'));
  const failure = h('p', { class: 'failure', role: 'alert' });
  const send = h('button', { class: 'primary' }, 'Create');
  const form = h('form', { onsubmit: submit },
    field('Label', label, 'The owner or the purpose of the token. Shown in lists and in the audit log.'),
    field('Space', space, access.space ? 'Your own token is for this space.' : 'Empty: all spaces.'),
    field('Scope', scope), field('Valid', life), failure,
    h('p', { class: 'buttons' }, h('button', { type: 'button', onclick: () => element.close() }, 'Cancel'), send));
  const element = dialog('Create a token', form);

  async function submit(event) {
    event.preventDefault();
    send.disabled = true;
    try {
      const body = { label: label.value, scope: scope.value };
      if (space.value) body.space = space.value;
      if (life.value) body.lifetimeSeconds = Number(life.value);
      show(await relay.makeToken(body));
      made();
    } catch (error) {
      if (!error.title) throw error;
      failure.textContent = `${error.title}. ${error.advice ?? ''}`;
      send.disabled = false;
    }
  }

  function show(token) {
    const secret = h('input', { type: 'text', readonly: true, class: 'secret', value: token.token, onfocus: () => secret.select() });
    const copied = h('p', { class: 'hint', role: 'status' });
    const copy = h('button', { type: 'button', class: 'primary', onclick: async () => {
      try {
        await navigator.clipboard.writeText(token.token);
        copied.textContent = 'Copied.';
      } catch {
        // Browsers allow the clipboard only on https and on localhost.
        secret.focus();
        copied.textContent = 'Press Ctrl+C to copy it.';
      }
    } }, 'Copy');
    element.querySelector('h2').textContent = 'Your new token';
    form.replaceWith(h('div', { class: 'stack' }, h('p', {}, 'The token is shown only once. Store it where others cannot read it.'), field('Token', secret), copied,
      h('p', { class: 'buttons' }, h('button', { type: 'button', onclick: () => element.close() }, 'Close'), copy)));
    secret.focus();
  }
}
