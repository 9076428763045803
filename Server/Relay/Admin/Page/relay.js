// Requests to the relay. The token is stored in this tab's session only and sent in a header, never in a URL or a
// cookie. So no other page can make the browser send it.

const KEY = 'annals-token';
const base = new URL('.', document.baseURI);

export const isOpen = document.documentElement.dataset.access === 'open';

export function token() {
  return sessionStorage.getItem(KEY);
}

export function setToken(value) {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

/** A refusal by the relay or a connection error: a title and advice in plain words. */
export class RelayError extends Error {
  constructor(status, title, advice) {
    super(title);
    this.status = status;
    this.title = title;
    this.advice = advice;
  }

  static async of(response) {
    let problem = {};
    if (response.headers.get('Content-Type')?.startsWith('application/problem+json')) problem = await response.json().catch(() => ({}));
    const told = [problem.detail, problem.hint].filter(Boolean).map((text) => text.replace(/[^.!?]$/, '$&.')).join(' ');
    switch (response.status) {
      case 401: return new RelayError(401, problem.detail ?? 'The token is not valid', 'Sign in with an admin token of this relay.');
      case 403: return new RelayError(403, 'This token does not permit that', told || 'Sign in with an admin token.');
      case 429:
      case 503: return new RelayError(response.status, 'The relay cannot answer now', 'It is busy, stopping, or its storage does not answer. Try again in a moment.');
      case 507: return new RelayError(507, 'The relay’s storage is full', 'Free some space on its disk.');
      default: return new RelayError(response.status, problem.title ?? `The relay answered with status ${response.status}`, told);
    }
  }
}

const offline = () => new RelayError(0, 'The relay cannot be reached', 'It may be stopped, or this device may be offline. The page tries again automatically.');

async function ask(method, path, { body, headers = {}, signal } = {}) {
  const all = { ...headers };
  if (token()) all.Authorization = `Bearer ${token()}`;
  if (body !== undefined) all['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(new URL(path, base), {
      method, headers: all, body: body === undefined ? undefined : JSON.stringify(body), signal, cache: 'no-store', credentials: 'omit',
      redirect: 'error', referrerPolicy: 'no-referrer',
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw offline();
  }
  if (!response.ok) throw await RelayError.of(response);
  return response;
}

async function json(method, path, options) {
  const response = await ask(method, path, options);
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw offline();
  }
}

const space = (name) => `v1/spaces/${encodeURIComponent(name)}`;
const query = (values) => {
  const pairs = Object.entries(values).filter(([, value]) => value !== undefined);
  return pairs.length ? `?${new URLSearchParams(pairs)}` : '';
};

export const access = () => json('GET', 'v1/admin/access');
export const spaces = (after) => json('GET', `v1/spaces${query({ after, limit: 100 })}`);
export const replicas = (name, signal) => json('GET', `${space(name)}/replicas`, { signal });
export const retire = (name, replica) => json('POST', `${space(name)}/replicas/${replica}/retire`);
export const release = (name, replica) => json('POST', `${space(name)}/replicas/${replica}/release`);
export const reports = (name, signal) => json('GET', `${space(name)}/reports`, { signal });
export const pushes = (name, { after, before, limit = 30 } = {}, signal) => json('GET', `${space(name)}/pushes${query({ after, before, limit })}`, { signal });
export const purge = (name, body) => json('POST', `${space(name)}/purge`, { body });
export const tokens = () => json('GET', 'v1/admin/tokens');
export const makeToken = (body) => json('POST', 'v1/admin/tokens', { body });
export const revoke = (id) => json('DELETE', `v1/admin/tokens/${id}`);
export const audit = (before) => json('GET', `v1/admin/audit${query({ before, limit: 50 })}`);

/** One space, as in the list. */
export async function summary(name) {
  const list = await json('GET', `v1/spaces${query({ space: name })}`);
  if (list.spaces.length === 0) throw new RelayError(404, 'There is no such space', 'It may have another name. See the list of spaces.');
  return { ...list.spaces[0], time: list.time };
}

/**
 * Follows a space's head until `signal` aborts, and reconnects after lost connections. EventSource cannot send a token, so
 * this function reads the stream itself. `onHead` gets each head; `onState` gets true when the stream opens and false when it ends.
 */
export async function follow(name, signal, onHead, onState) {
  let seen;
  let pause = 500;
  while (!signal.aborted) {
    try {
      const headers = { Accept: 'text/event-stream' };
      if (seen) headers['Last-Event-ID'] = seen;
      const response = await ask('GET', `${space(name)}/events`, { headers, signal });
      onState(true);
      pause = 500;
      for await (const event of events(response)) {
        seen = event.id ?? seen;
        if (event.name === 'head') onHead(JSON.parse(event.data).head);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401 || error.status === 403 || error.status === 404) {
        onState(false, error);
        return;
      }
    }
    onState(false);
    await new Promise((wake) => {
      const timer = setTimeout(wake, pause);
      signal.addEventListener('abort', () => { clearTimeout(timer); wake(); }, { once: true });
    });
    pause = Math.min(pause * 2, 30000);
  }
}

/** The relay sends a heartbeat every few seconds. After this silence the connection counts as lost. */
const SILENCE = 90000;

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  let timer;
  try {
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(() => reader.cancel().catch(() => {}), SILENCE);
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      const blocks = text.split('\n\n');
      text = blocks.pop();
      for (const block of blocks) {
        const event = { name: 'message', data: '' };
        for (const line of block.split('\n')) {
          const [, name, value_] = /^([^:]*):? ?(.*)$/.exec(line);
          if (name === 'event') event.name = value_;
          else if (name === 'id') event.id = value_;
          else if (name === 'data') event.data += value_;
        }
        if (event.data) yield event;
      }
    }
  } finally {
    clearTimeout(timer);
    reader.cancel().catch(() => {});
  }
}
