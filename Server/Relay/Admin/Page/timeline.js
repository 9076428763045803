// Recent pushes, updated live.

import { h, bytes, count, plain, setClock, when } from './elements.js';
import * as relay from './relay.js';

/** The highest number of pushes that live updates keep in the list. */
const SHOWN = 200;

/** The newest pushes of a space. `moved` is called when the head moves, at most once a second. */
export async function timeline(name, signal, failed, moved) {
  const list = h('ol', { class: 'timeline', role: 'log', 'aria-label': 'Pushes, newest first', 'aria-live': 'polite', tabindex: '-1' });
  const state = h('p', { class: 'hint' });
  const pause = h('button', { type: 'button', 'aria-pressed': 'false', onclick: toggle }, 'Pause');
  const older = h('button', { type: 'button', onclick: () => loadOlder().catch(failed) }, 'Older pushes');
  const empty = h('p', { class: 'empty' }, 'There are no pushes yet, or all of them were purged.');
  let isPaused = false;
  let isLive = false;
  let known = 0;
  let head = 0;
  let isLoading = false;

  const first = await relay.pushes(name, {}, signal);
  setClock(first.time);
  known = first.pushes[0]?.position ?? 0;
  head = known;
  list.append(...first.pushes.map(entry));
  older.hidden = first.pushes.length < 30;
  arrange();
  relay.follow(name, signal, (position) => {
    head = position;
    if (isPaused) arrange();
    else catchUp();
  }, (open, error) => {
    isLive = open;
    arrange();
    if (error) failed(error);
  });
  return h('section', { class: 'card', 'aria-labelledby': 'pushes' },
    h('div', { class: 'row spread' }, h('h2', { id: 'pushes' }, 'Recent pushes'), pause), state, list, empty, h('p', { class: 'buttons' }, older));

  /** Loads new pushes; several heads in a row need only one request. */
  async function catchUp() {
    if (isLoading || isPaused || signal.aborted) return;
    isLoading = true;
    try {
      while (head > known && !isPaused && !signal.aborted) {
        const target = head;
        const answer = await relay.pushes(name, { after: known, limit: 50 }, signal);
        setClock(answer.time);
        // The head is the last position of a push; the list has first positions.
        known = Math.max(target, answer.pushes[0]?.position ?? 0);
        list.prepend(...answer.pushes.map(entry));
        while (list.childElementCount > SHOWN) list.lastElementChild.remove();
        older.hidden = older.hidden && list.childElementCount < SHOWN;
        arrange();
        moved();
        await new Promise((wake) => { setTimeout(wake, 1000); });
      }
    } catch (error) {
      if (error.name !== 'AbortError') failed(error);
    } finally {
      isLoading = false;
    }
  }

  async function loadOlder() {
    const last = list.lastElementChild;
    const answer = await relay.pushes(name, { before: Number(last?.dataset.position ?? 0) }, signal);
    list.append(...answer.pushes.map(entry));
    older.hidden = answer.pushes.length < 30;
    if (older.hidden) (last?.nextElementSibling ? list : pause).focus();
  }

  function toggle() {
    isPaused = !isPaused;
    pause.setAttribute('aria-pressed', String(isPaused));
    arrange();
    if (!isPaused) catchUp();
  }

  function arrange() {
    empty.hidden = list.childElementCount > 0;
    const behind = Math.max(0, head - known);
    if (isPaused) state.textContent = behind > 0 ? `Paused. ${count(behind, 'newer position')} to show.` : 'Paused.';
    else state.textContent = isLive ? 'Live: new pushes appear automatically.' : 'Connecting…';
    state.classList.toggle('live', isLive && !isPaused);
  }
}

function entry(push) {
  const last = push.position + push.count - 1;
  const range = push.count === 1 ? plain(push.position) : `${plain(push.position)} to ${plain(last)}`;
  return h('li', { 'data-position': push.position },
    h('p', {}, h('strong', {}, push.name || push.replica.slice(0, 8)), ' pushed ', count(push.count, 'transaction'), ', ', bytes(push.bytes)),
    h('p', { class: 'hint' }, when(push.received), `, position ${range}`));
}
