// The audit log: who did what to the relay.

import { h, setClock, table, when } from './elements.js';
import * as relay from './relay.js';

const WORDS = {
  'token-create': 'created a token', 'token-revoke': 'revoked a token', 'replica-retire': 'retired a replica',
  'replica-release': 'released a replica', 'space-purge': 'purged a space', 'entry-void': 'voided entries',
  'owner-quarantine': 'quarantined an owner', 'owner-lift': 'lifted a quarantine', 'space-delete': 'deleted a space',
  'entry-report': 'reported an entry', 'snapshot-refuted': 'refuted a snapshot',
  'relay-backup': 'backed up the relay', 'relay-restore': 'restored a space from a backup',
};

export async function showAudit({ place, signal, failed }) {
  const list = h('div');
  const older = h('button', { type: 'button', onclick: () => load().catch(failed) }, 'Older lines');
  const lines = [];
  await load();
  place.replaceChildren(h('p', { class: 'hint' }, 'The actions of operators, on this page and on the command line. Automatic actions of the relay are not included.'),
    list, h('p', { class: 'buttons' }, older));

  async function load() {
    const answer = await relay.audit(lines.at(-1)?.number);
    if (signal.aborted) return;
    setClock(answer.time);
    lines.push(...answer.lines);
    older.hidden = answer.lines.length < 50;
    const rows = lines.map((line) => [when(line.time), line.actor, WORDS[line.action] ?? line.action, line.space ?? 'all', line.subject,
      h('span', { class: line.outcome === 'done' ? 'tag good' : 'tag warn' }, line.outcome)]);
    list.replaceChildren(rows.length === 0 ? h('p', { class: 'empty' }, 'There are no lines yet.')
      : h('div', { class: 'card' }, table('Audit log, newest first', ['When', 'Who', 'What', 'Space', 'To', 'Outcome'], rows)));
  }
}
