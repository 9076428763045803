// Elements, times, sizes and dialogs. Data is inserted as text and never as markup.

/** Creates an element: attributes by name, `on…` as listeners, true for an attribute without a value; then its children. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const number = new Intl.NumberFormat('en');

export function count(value, one, many = `${one}s`) {
  return `${number.format(value)} ${value === 1 ? one : many}`;
}

export function plain(value) {
  return number.format(value);
}

export function bytes(value) {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const text = unit === 0 || value >= 99.95 ? number.format(Math.round(value)) : value.toFixed(1);
  return `${text} ${unit === 0 && value === 1 ? 'byte' : units[unit]}`;
}

// All times come from the relay, so ages use the relay's clock instead of this machine's.
let clockAhead = 0;

export function setClock(relayTime) {
  clockAhead = relayTime - Date.now();
}

export function now() {
  return Date.now() + clockAhead;
}

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const exact = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium' });
const steps = [['year', 31557600], ['month', 2629800], ['day', 86400], ['hour', 3600], ['minute', 60]];

function age(time) {
  const seconds = (time - now()) / 1000;
  for (const [unit, length] of steps) {
    if (Math.abs(seconds) >= length) return relative.format(Math.round(seconds / length), unit);
  }
  return seconds > 1 ? 'in a moment' : 'just now';
}

/** A time shown as an age, with the exact time in the tooltip. */
export function when(time) {
  const date = new Date(time);
  return h('time', { datetime: date.toISOString(), title: exact.format(date) }, age(time));
}

function tick() {
  for (const element of document.querySelectorAll('time')) element.textContent = age(Date.parse(element.dateTime));
}

setInterval(tick, 15000);

/** Announces a text to screen readers. */
export function say(text) {
  const said = document.getElementById('said');
  said.textContent = '';
  requestAnimationFrame(() => { said.textContent = text; });
}

/** Shows an error, with a retry button if `again` is given. */
export function notice(error, again) {
  const place = document.getElementById('notice');
  if (!error) return place.replaceChildren();
  // An error that is shown already is not announced again.
  if (place.querySelector('strong')?.textContent === error.title) return undefined;
  const retry = again && h('button', { type: 'button', onclick: () => { notice(null); again(); } }, 'Try again');
  return place.replaceChildren(h('div', { class: 'notice' }, h('p', {}, h('strong', {}, error.title)), h('p', {}, error.advice), retry));
}

/** A table with rows on a wide screen and cards on a narrow one; its roles stay those of a table. */
export function table(caption, columns, rows) {
  const head = columns.map((column) => h('th', { scope: 'col', role: 'columnheader' }, column));
  const body = rows.map((cells) => h('tr', { role: 'row' }, cells.map((cell, place) => {
    // Only words that are too long for any column may be broken.
    const isLong = /[^\s-]{20}/.test(cell.textContent ?? cell);
    const kind = columns[place] === 'Actions' ? 'actions' : isLong ? 'long' : null;
    return h('td', { role: 'cell', 'data-column': columns[place], class: kind }, cell);
  })));
  return h('table', { role: 'table' }, h('caption', { class: 'unseen' }, caption),
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, head)), h('tbody', { role: 'rowgroup' }, body));
}

export function facts(...pairs) {
  return h('dl', { class: 'facts' }, pairs.filter(Boolean).map(([name, ...value]) => h('div', {}, h('dt', {}, name), h('dd', {}, ...value))));
}

let dialogs = 0;

/** Opens a modal dialog. The browser blocks the page behind it, closes it on Escape and then restores the focus. */
export function dialog(title, ...content) {
  const heading = `dialog-${dialogs += 1}`;
  const element = h('dialog', { 'aria-labelledby': heading, onclose: () => element.remove(), onkeydown: turn }, h('h2', { id: heading }, title), ...content);
  document.body.append(element);
  element.showModal();
  return element;

  /** Moves the focus from the last control to the first, and back, instead of to the browser's own buttons. */
  function turn(event) {
    if (event.key !== 'Tab') return;
    const stops = [...element.querySelectorAll('button, input, select')].filter((one) => !one.disabled && one.checkVisibility());
    const [leaving, entering] = event.shiftKey ? [stops[0], stops.at(-1)] : [stops.at(-1), stops[0]];
    if (document.activeElement !== leaving) return;
    event.preventDefault();
    entering.focus();
  }
}

/** Asks for confirmation: `act` runs after it, and a failure is shown in the dialog. */
export function confirm(title, explanation, verb, act) {
  const failure = h('p', { class: 'failure', role: 'alert' });
  const yes = h('button', { type: 'button', class: 'danger', onclick: run }, verb);
  const no = h('button', { type: 'button', autofocus: true, onclick: () => element.close() }, 'Cancel');
  const element = dialog(title, ...explanation.map((text) => h('p', {}, text)), failure, h('p', { class: 'buttons' }, no, yes));
  async function run() {
    yes.disabled = true;
    try {
      await act();
      element.close();
    } catch (error) {
      failure.textContent = `${error.title}. ${error.advice ?? ''}`;
      yes.disabled = false;
    }
  }
}

/** A labelled field. In a row the label belongs to the first control. `hint` is the description of the control. */
export function field(label, content, hint) {
  const input = content.matches('.row') ? content.firstElementChild : content;
  input.id ||= `field-${dialogs += 1}`;
  if (hint) input.setAttribute('aria-describedby', `${input.id}-hint`);
  return h('div', { class: 'field' }, h('label', { for: input.id }, label), content, hint && h('p', { class: 'hint', id: `${input.id}-hint` }, hint));
}

export function options(values, chosen) {
  return values.map(([value, text]) => h('option', { value, selected: value === chosen }, text));
}

const dayLabel = new Intl.DateTimeFormat('en', { day: 'numeric', month: 'short', timeZone: 'UTC' });
const SVG = 'http://www.w3.org/2000/svg';

/** The growth of the last thirty days as a bar chart, with a text for screen readers. */
export function growth(days) {
  const length = 86400000;
  const last = Math.floor(now() / length);
  const values = Array.from({ length: 30 }, (_, place) => days.find((day) => Math.floor(day.begins / length) === last - 29 + place)?.bytes ?? 0);
  const most = Math.max(...values);
  const total = values.reduce((sum, value) => sum + value, 0);
  const peak = last - 29 + values.indexOf(most);
  const text = total === 0 ? 'No growth in 30 days'
    : `${bytes(total)} in 30 days, the most on ${dayLabel.format(peak * length)} with ${bytes(most)}, today ${bytes(values[29])}`;
  const image = document.createElementNS(SVG, 'svg');
  for (const [name, value] of Object.entries({ viewBox: '0 0 300 48', class: 'growth', role: 'img', 'aria-label': text, preserveAspectRatio: 'none' })) {
    image.setAttribute(name, value);
  }
  const title = document.createElementNS(SVG, 'title');
  title.textContent = text;
  image.append(title);
  values.forEach((value, place) => {
    const height = most === 0 || value === 0 ? 1 : Math.max(3, (value / most) * 46);
    const bar = document.createElementNS(SVG, 'rect');
    for (const [name, size] of Object.entries({ x: place * 10 + 1, y: 48 - height, width: 8, height, rx: 1 })) bar.setAttribute(name, size);
    if (value === 0) bar.setAttribute('class', 'none');
    image.append(bar);
  });
  return h('figure', { class: 'growth' }, image, h('figcaption', {}, total === 0 ? text : `${bytes(total)} in 30 days, ${bytes(values[29])} today`));
}
