// The list of spaces, and one space: its size, replicas, recent pushes and purges.

import { h, bytes, confirm, count, facts, field, growth, options, plain, say, setClock, table, when } from './elements.js';
import * as relay from './relay.js';
import { timeline } from './timeline.js';

const REFRESH = 30000;

/** Runs `refresh` at intervals while the view is shown and the page is visible. */
function refreshing(signal, refresh) {
  const timer = setInterval(() => { if (!document.hidden) refresh(); }, REFRESH);
  signal.addEventListener('abort', () => clearInterval(timer), { once: true });
}

export async function showSpaces({ place, access, signal, failed }) {
  const list = h('ul', { class: 'spaces' });
  const more = h('button', { type: 'button', onclick: () => load(true).catch(failed) }, 'More spaces');
  let last;
  await load(false);
  refreshing(signal, () => { if (!last) load(false).catch(failed); });

  async function load(further) {
    const answer = await relay.spaces(further ? last : undefined);
    if (signal.aborted) return;
    setClock(answer.time);
    const cards = answer.spaces.map(card);
    if (further) list.append(...cards);
    else list.replaceChildren(...cards);
    last = answer.isLast ? undefined : answer.spaces.at(-1).space;
    if (list.childElementCount === 0) {
      place.replaceChildren(h('div', { class: 'empty' }, h('p', {}, h('strong', {}, 'No spaces yet')), h('p', {}, access.space
        ? `This token administers the space ${access.space}, which does not exist yet. The first replica that joins creates it.`
        : 'The first replica that joins a space creates it: '), !access.space && h('code', {}, 'annals join STORE --relay URL --space NAME')));
    } else {
      const backup = !access.space && h('p', { class: 'hint' }, 'Newest backup: ', answer.backup ? when(answer.backup) : 'none by annals relay backup');
      place.replaceChildren(...[backup, list, !answer.isLast && more].filter(Boolean));
    }
    if (further) say(`${count(cards.length, 'more space')}`);
  }
}

function card(space) {
  return h('li', { class: 'card' },
    h('h2', {}, h('a', { href: `#/spaces/${space.space}` }, space.space)),
    growth(space.days),
    facts(['Head', plain(space.head)], ['Log', bytes(space.logBytes)], ['Horizon', plain(space.horizon)],
      ['Replicas', plain(space.replicas)], ['Last push', space.lastPush ? when(space.lastPush) : 'none']));
}

export async function showSpace({ place, access, signal, failed }, name) {
  const overview = h('section', { class: 'card', 'aria-labelledby': 'overview' });
  const replicas = h('section', { class: 'card', 'aria-labelledby': 'replicas' });
  const refused = h('section', { class: 'card', 'aria-labelledby': 'refused' });
  let [space, answer, reports] = await look();
  if (signal.aborted) return;
  setClock(space.time);
  fill();
  const pushes = await timeline(name, signal, failed, () => refresh());
  if (signal.aborted) return;
  place.replaceChildren(h('p', { class: 'back' }, h('a', { href: '#/spaces' }, access.space ? 'Overview' : 'All spaces')),
    overview, refused, replicas, pushes, room(name, () => refresh()));
  refreshing(signal, refresh);

  function look() {
    return Promise.all([relay.summary(name), relay.replicas(name, signal), relay.reports(name, signal)]);
  }

  let isRefreshing = false;
  async function refresh() {
    if (isRefreshing || signal.aborted) return;
    isRefreshing = true;
    try {
      [space, answer, reports] = await look();
      if (signal.aborted) return;
      setClock(space.time);
      fill();
    } catch (error) {
      if (error.name !== 'AbortError') failed(error);
    } finally {
      isRefreshing = false;
    }
  }

  function fill() {
    // A refresh must not lose the focus.
    const focused = document.activeElement?.dataset?.replica;
    const snapshot = space.snapshot;
    overview.replaceChildren(h('h2', { id: 'overview' }, 'Overview'), growth(space.days), facts(
      ['Head', plain(space.head)], ['Log', bytes(space.logBytes)], ['Horizon', plain(space.horizon)],
      ['Snapshots', snapshot ? `${plain(space.snapshots)}, ${bytes(space.snapshotBytes)}, newest at ${plain(snapshot.position)}` : 'none yet'],
      ['Last push', space.lastPush ? when(space.lastPush) : 'none'], ['Created', when(space.created)],
      ...space.quarantined.map(({ owner, since }) => ['Quarantined', h('span', {}, owner, ' since ', when(since))])));
    fillRefused();
    const rows = answer.replicas.map((replica) => [
      h('span', {}, h('strong', {}, replica.name || 'without a name'), h('code', { class: 'id', title: replica.replica }, replica.replica.slice(0, 8))),
      plain(answer.head - replica.lag), lag(replica), when(replica.lastSeen), replica.program || 'unknown', actions(replica),
    ]);
    const heading = h('h2', { id: 'replicas' }, 'Replicas');
    if (rows.length === 0) replicas.replaceChildren(heading, h('p', { class: 'empty' }, 'No replica has connected yet.'));
    else replicas.replaceChildren(heading, table(`Replicas of ${name}`, ['Replica', 'Position', 'Lag', 'Last seen', 'Program', 'Actions'], rows));
    if (focused) replicas.querySelector(`[data-replica="${focused}"]`)?.focus();
  }

  /** Entries that receivers cannot apply. Receivers stop before such an entry until it is voided. */
  function fillRefused() {
    refused.hidden = reports.reports.length === 0;
    if (refused.hidden) return refused.replaceChildren();
    const rows = reports.reports.map((entry) => [
      plain(entry.position), entry.name || (entry.author ?? '').slice(0, 8), entry.rule, entry.table ?? '', plain(entry.reporters),
      when(entry.reported),
    ]);
    return refused.replaceChildren(h('h2', { id: 'refused' }, 'Refused entries'),
      h('p', { class: 'hint' }, 'Receivers cannot apply these entries and stop before them: ',
        h('code', {}, `annals relay void --reported --space ${name}`), ' voids them.'),
      table(`Refused entries of ${name}`, ['Position', 'Author', 'Rule', 'Table', 'Reported by', 'Since'], rows));
  }

  function lag(replica) {
    if (replica.quarantined) return h('span', { class: 'tag warn' }, 'quarantined ', when(replica.quarantined));
    if (replica.retired) return h('span', { class: 'tag' }, 'retired ', when(replica.retired));
    return replica.lag === 0 ? h('span', { class: 'tag good' }, 'up to date') : h('span', { class: 'tag warn' }, `${plain(replica.lag)} behind`);
  }

  function actions(replica) {
    return h('span', { class: 'buttons' }, replica.retired ? '' : retire(replica), replica.owner ? release(replica) : '');
  }

  function release(replica) {
    const called = replica.name || replica.replica.slice(0, 8);
    return h('button', {
      type: 'button', 'data-replica': `${replica.replica} release`, 'aria-label': `Release ${called}`,
      onclick: () => confirm(`Release ${called}?`, [
        `It belongs to ${replica.owner}, and only that owner can push as it.`,
        'After the release, the next owner that pushes as it owns it. So it can continue with another token.',
      ], 'Release', async () => {
        await relay.release(name, replica.replica);
        say(`${called} is released`);
        await refresh();
      }),
    }, 'Release');
  }

  function retire(replica) {
    const called = replica.name || replica.replica.slice(0, 8);
    return h('button', {
      type: 'button', 'data-replica': replica.replica, 'aria-label': `Retire ${called}`,
      onclick: () => confirm(`Retire ${called}?`, [
        'It no longer holds back purges of entries that only this replica has not applied. Its own data is not changed.',
        'If it returns, it loads the newest snapshot, rebases its own changes on it, and is live again.',
      ], 'Retire', async () => {
        await relay.retire(name, replica.replica);
        say(`${called} is retired`);
        await refresh();
      }),
    }, 'Retire');
  }
}

/** The purge form. A purge is possible only after a preview. */
function room(name, done) {
  const age = h('input', { type: 'number', min: '0', max: '36500', value: '7', required: true, inputmode: 'numeric' });
  const unit = h('select', { 'aria-label': 'Unit of the age' }, options([['86400', 'days'], ['3600', 'hours'], ['60', 'minutes']], '86400'));
  const force = h('input', { type: 'checkbox', id: 'force', 'aria-describedby': 'force-hint' });
  const result = h('div', { class: 'preview', role: 'status' });
  const form = h('form', { onsubmit: preview, oninput: () => result.replaceChildren() },
    field('Keep entries younger than', h('div', { class: 'row' }, age, unit)),
    h('div', { class: 'check' }, force, h('label', { for: 'force' }, 'Also drop entries that live replicas have not applied')),
    h('p', { class: 'hint', id: 'force-hint' }, 'These replicas then load the newest snapshot and lose nothing.'),
    h('p', { class: 'buttons' }, h('button', {}, 'Preview')));
  return h('section', { class: 'card', 'aria-labelledby': 'room' }, h('h2', { id: 'room' }, 'Make room'),
    h('p', { class: 'hint' }, 'The relay purges old entries at intervals. Here you can do it sooner. No rows are lost: a purge drops only entries that a snapshot covers.'),
    form, result);

  function asked(dryRun) {
    return { keepSeconds: Math.round(Number(age.value) * Number(unit.value)), force: force.checked, dryRun };
  }

  async function preview(event) {
    event.preventDefault();
    try {
      const plan = await relay.purge(name, asked(true));
      if (plan.positions === 0) {
        result.replaceChildren(h('p', {}, h('strong', {}, 'Nothing would be dropped. '), plan.newestSnapshot === undefined
          ? 'A purge needs a snapshot, and there is none yet.'
          : `The newest snapshot is at position ${plain(plan.newestSnapshot)}, the log begins after ${plain(plan.horizon)}, and younger entries are kept.`),
        unconfirmed(plan), holding(plan));
        return;
      }
      const what = `${count(plan.positions, 'position')} (${bytes(plan.bytes)})`;
      result.replaceChildren(
        h('p', {}, h('strong', {}, `${what} would be dropped. `), `The log would begin after position ${plain(plan.horizon)} of ${plain(plan.head)}.`),
        plan.snapshots > 0 && h('p', {}, `${count(plan.snapshots, 'older snapshot')} would also be dropped.`), unconfirmed(plan), holding(plan),
        h('p', { class: 'buttons' }, h('button', { type: 'button', class: 'danger', onclick: () => purge(what, plan) }, 'Purge…')));
    } catch (error) {
      if (!error.title) throw error;
      result.replaceChildren(h('p', { class: 'failure' }, `${error.title}. ${error.advice ?? ''}`));
    }
  }

  function unconfirmed(plan) {
    return plan.unconfirmedSnapshot === undefined ? '' : h('p', {},
      `The snapshot at position ${plain(plan.unconfirmedSnapshot)} can be used after a replica of another owner confirms its rows.`);
  }

  function holding(plan) {
    if (plan.holding.length === 0) return '';
    const names = plan.holding.map((replica) => `${replica.name || replica.replica.slice(0, 8)} (at ${plain(replica.position)})`);
    return h('p', {}, `Held back by ${names.join(', ')}.`);
  }

  function purge(what, plan) {
    confirm(`Purge ${name}?`, [
      `${what} of the log will be dropped, up to position ${plain(plan.horizon)}. This cannot be undone.`,
      'Replicas that have not applied these entries load the newest snapshot. Older states of the space can no longer be replayed.',
    ], 'Purge', async () => {
      const outcome = await relay.purge(name, asked(false));
      const text = `${count(outcome.positions, 'position')} (${bytes(outcome.bytes)}) dropped. The log begins after position ${plain(outcome.horizon)}.`;
      result.replaceChildren(h('p', {}, text));
      done();
    });
  }
}
