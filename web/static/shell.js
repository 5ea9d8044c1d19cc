// The shell of the page: header, views by the address's hash, one event stream, one poll of the status.
//
// A view is a row of `views` below, and a module views/NAME.js with
//
//   export async function show(main, params, ctx)   // may return { close() }
//
// main is the emptied element of the view. params has `name`, `path`, the parts of the hash after the view's name
// (['3'] of #/map/3?at=7), and `query`, its URLSearchParams. ctx is made for each view and ends with it:
//
//   get(path)              JSON of a path of the API, with the token. It throws an Error whose text is the
//                          server's; the view's errors are shown above it until something succeeds
//   send(method, path, body, match)  makes a change; JSON of the answer, or null. match is the revision of
//                          what is changed: the server refuses the change of another one
//   go(hash, replace)      shows another view; replace: without an entry in the browser's history
//   live(kind, fn)         calls fn(event) for each event of a kind, '' of all, from now on
//   recent()               the last 200 events, the oldest first
//   every(ms, fn)          calls fn(status) now and then every ms at least, never twice at a time, and soon
//                          after an event. It returns a function that asks for a call at once
//   say(text)              has it read aloud: one short text, the newest
//   role                   none, viewer, operator, admin or tenant
//   name                   who is signed in
//   may(role)              whether who is signed in has this role
//   status                 the last answer of v1/status
//   ha                     the last answer of v1/ha
//   signal                 aborted when the view is left
//
// When another query of the same view is asked for, the view is closed and shown again: views keep nothing
// but what the address says. One that returned { query(params) } gets the new query by that instead.

import { $, button, clock, element, html, link, num, section, show as replace } from './dom.js';

// Views by name: title, module if it is another one, whether the navigation has it.
export const views = {
  '': { title: 'Overview', file: 'overview', nav: true },
  map: { title: 'Map', nav: true },
  path: { title: 'Path', nav: true },
  use: { title: 'Use of cables', nav: true },
  nodes: { title: 'Nodes', file: 'table', nav: true },
  ports: { title: 'Ports', file: 'table', nav: true },
  cables: { title: 'Cables', file: 'table', nav: true },
  groups: { title: 'Groups', file: 'table', nav: true },
  partitions: { title: 'Partitions', file: 'table', nav: true },
  vms: { title: 'VMs', file: 'table', nav: true },
  findings: { title: 'Findings', file: 'table', nav: true },
  events: { title: 'Events', file: 'table', nav: true },
  counters: { title: 'Counters', nav: true },
  sweeps: { title: 'Sweeps', nav: true },
  actions: { title: 'Actions', nav: true },
  node: { title: 'Node' },
  partition: { title: 'Partition' },
  port: { title: 'Port' },
  search: { title: 'Search' },
};

// ---- requests ----

const stored = key => { try { return sessionStorage.getItem(key) || ''; } catch { return ''; } };
let token = stored('token');
let role = 'viewer', caller = '';

async function request(method, path, body, signal, match) {
  const headers = { Accept: 'application/json' };
  if (match) headers['If-Match'] = `"${match}"`;
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const r = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await r.text();
  if (r.ok) return text ? JSON.parse(text) : null;
  let why = text.trim();
  try { const p = JSON.parse(text); why = p.detail || p.title || why; } catch { /* plain text */ }
  const e = new Error(why || `${method} ${path}: ${r.status}`);
  e.status = r.status;
  throw e;
}

const ladder = ['none', 'tenant', 'viewer', 'operator', 'admin'];
const may = want => ladder.indexOf(role) >= ladder.indexOf(want);

async function identify() {
  try {
    const w = await request('GET', 'v1/whoami');
    role = w.role;
    caller = w.name;
  } catch (e) {
    if (e.status !== 401) throw e;
    role = 'none';
    caller = '';
  }
  replace($('who'), token ? `${caller}: ${role}` : 'Sign in');
  document.body.dataset.role = role;
}

// forget signs out.
function forget() {
  token = '';
  try { sessionStorage.removeItem('token'); } catch { /* this page alone */ }
}

// signIn asks for a token and keeps it until the browser's tab is closed.
function signIn(why) {
  const d = $('dialog');
  d.replaceChildren(html(`<form method="dialog"><h2 id="dialogTitle">Sign in</h2><p id="dialogWhy"></p>
    <p><label for="token">Token</label> <input id="token" type="password" autocomplete="off" spellcheck="false"></p>
    <p class="buttons"><button value="ok">Sign in</button> <button value="out">Sign out</button> <button value="cancel" formnovalidate>Cancel</button></p></form>`));
  $('dialogWhy').textContent = why || 'A named token ("heddle ctl token create") or the token of the daemon\'s token file. It is kept until this tab is closed.';
  d.onclose = async () => {
    const text = $('token')?.value.trim() || '';
    if (d.returnValue === 'cancel' || d.returnValue === '' || d.returnValue === 'ok' && !text) return;
    const before = token;
    token = d.returnValue === 'ok' ? text : '';
    try {
      await identify();
      if (token && role === 'none') throw new Error('the token is not accepted');
    } catch (e) {
      token = before;
      await identify();
      signIn(e.message);
      return;
    }
    try { sessionStorage.setItem('token', token); } catch { /* this page alone */ }
    say(token ? `signed in as ${caller}, ${role}` : 'signed out');
    restart();
    poll();
    route(true);
  };
  d.returnValue = '';
  d.showModal();
}

// ---- the live region and errors ----

let sayDue = 0;
function say(text) {
  clearTimeout(sayDue);
  sayDue = setTimeout(() => { $('live').textContent = String(text).slice(0, 200); }, 150); // the newest only
}

function trouble(text) {
  const t = $('trouble');
  if (t.textContent !== text) t.textContent = text;
  t.hidden = !text;
}

// notice says for a minute that something is as it was not before.
let noticeDue = 0;
function notice(...parts) {
  clearTimeout(noticeDue);
  $('notice').hidden = false;
  replace($('notice'), ...parts);
  say($('notice').textContent);
  noticeDue = setTimeout(() => { $('notice').hidden = true; }, 60000);
}

// ---- events ----

const listeners = new Set();
let streamEnd = null, lastEvent = '';

// follow reads the event stream. It is no EventSource, since that sends no token.
async function follow(signal) {
  while (!signal.aborted) {
    try {
      const headers = { Accept: 'text/event-stream' };
      if (token) headers.Authorization = `Bearer ${token}`;
      if (lastEvent) headers['Last-Event-ID'] = lastEvent;
      const r = await fetch('v1/events/stream', { headers, signal });
      if (r.ok) await records(r.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch { /* asked for again */ }
    await new Promise(done => setTimeout(done, 3000));
  }
}

async function records(reader) {
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split('\n\n');
    text = parts.pop();
    for (const p of parts) {
      const id = /^id: (.*)$/m.exec(p), data = /^data: (.*)$/m.exec(p);
      if (id) lastEvent = id[1];
      if (data) heard(JSON.parse(data[1]));
    }
  }
}

const recent = []; // the last events
function heard(e) {
  recent.push(e);
  if (recent.length > 200) recent.shift();
  for (const l of listeners) if (!l.kind || l.kind === e.kind) l.fn(e);
  soon();
}

function restart() {
  streamEnd?.abort();
  streamEnd = new AbortController();
  if (may('viewer')) follow(streamEnd.signal);
}

// ---- status ----

let spare = false; // another manager is active
let lost = null; // since when the manager does not respond
let status = null, ha = null, other = ''; // other: where the partner's API is, as far as this manager said
let due = 0;
const wakes = new Set();
function soon() { // an event usually means new numbers; poll at most four times a second
  if (!due) due = setTimeout(() => { due = 0; poll(); for (const w of wakes) w(); }, 250);
}

// quorum is how the manager stands to the state that it shares with others in etcd.
function quorum(h, el) {
  const q = h.quorum, since = t => t < 0 ? 'not yet' : `${t.toFixed(1)} s ago`;
  const state = { term: 'has the term', away: 'has the term, but etcd does not answer', refused: 'master without the term',
    follower: 'follows without the term' }[h.state] || h.state;
  const parts = [state, `term ${num(q.term)} of ${q.term_owner}`, `entry ${num(q.entry)}`, `last sync ${since(q.sync_seconds)}`];
  if (h.why) parts.push(h.why);
  if (q.refused_seconds) parts.push(`for ${q.refused_seconds.toFixed(0)} s`);
  const differ = (q.members || []).filter(m => m.settings_differ);
  for (const m of differ) parts.push(`settings of ${m.address} differ, give all the same: ${m.settings_differ.join(', ')}`);
  el.textContent = `Shared state: ${parts.join('; ')}`;
  el.className = h.why || differ.length ? 'bad' : '';
}

// page is a link to the page of another manager, or its address if that is none of HTTP.
function page(at, hash) {
  try { return link(new URL(`http://${at}/${hash || ''}`).href, at); } catch { return at; }
}

// pair shows how the manager stands to its partner, or to a shared state, and returns whether this process runs a manager.
function pair(h) {
  const p = h.pair, el = $('pair');
  el.hidden = !p && !h.quorum;
  if (h.quorum) quorum(h, el);
  if (!p) return h.active;
  other = p.peer_api || other;
  const since = t => t < 1 ? 'just now' : `${t.toFixed(0)} s ago`; // a line that does not change all the time
  const sign = t => t < 0 ? 'not heard' : `heard ${since(t)}`;
  const good = h.state === 'paired';
  const spare = good ? (h.active ? 'the partner has all changes' : 'has all changes') : { alone: 'no spare: the partner is away', waiting: 'changes wait for the partner',
    copying: 'copies the state', stale: 'may lack changes', starting: 'starts' }[h.state] || h.state;
  const signs = [p.stream_sign_seconds, p.fabric_sign_seconds].filter(t => t >= 0);
  const state = Math.min(...signs) > 0.4 ? '' : p.peer_active ? ' active' : ' standby'; // a silent one is what it was
  const begun = h.since ? ` since ${new Date(h.since).toLocaleTimeString('en-GB')}` : '';
  const parts = [`${h.active ? 'active' : 'standby'}${begun}${h.why ? `: ${h.why}` : ''}`, spare, `term ${num(p.term)}`,
    p.sync_seconds < 0 ? 'never in sync' : `last sync ${since(p.sync_seconds)}`,
    `partner ${p.peer}${state}, ${sign(p.stream_sign_seconds)} over TCP, ${sign(p.fabric_sign_seconds)} in the subnet`];
  if (p.lag_entries) parts.push(`${num(p.lag_entries)} change${p.lag_entries === 1 ? '' : 's'} behind for ${p.lag_seconds.toFixed(0)} s`);
  if (!p.port_usable) parts.push('its port is down');
  if (p.settings_differ) parts.push(`settings differ, give both the same: ${p.settings_differ.join(', ')}`);
  if (p.stream_error && h.state !== 'paired') parts.push(p.stream_error);
  const line = `Pair: ${parts.join('; ')}`;
  el.className = good && p.port_usable && !p.settings_differ ? '' : 'bad';
  if (!h.active && h.active_at) replace(el, `${line}. The active manager is at `, page(h.active_at));
  else replace(el, line);
  return h.active;
}

// waiting says that a change of routes waits, and until when; the time is kept while it is about the same.
let waitEnd = 0;
function waiting(s) {
  const el = $('wait'), end = Date.now() + 1000 * (s.wait_seconds || 0), before = el.hidden;
  el.hidden = !(s.wait_seconds >= 1);
  if (el.hidden || !before && Math.abs(end - waitEnd) < 2000) return;
  waitEnd = end;
  replace(el, `A change of routes waits until about ${clock(end)}: packets of earlier routes have to leave first.`);
  say(el.textContent);
}

function badge(id, text, kind) {
  replace($(id), text);
  $(id).className = `badge ${kind}`;
}

const signedOut = 'You were signed out: the token is not valid any more.';
async function refresh() {
  const before = role;
  let s, h, out = '';
  try {
    s = await request('GET', 'v1/status').catch(async e => {
      if (e.status !== 401 || !token) throw e;
      forget(); // it was revoked, has expired, or is the daemon's of before a restart
      await identify();
      if (role === 'none') throw e;
      out = signedOut;
      return request('GET', 'v1/status');
    });
    h = await request('GET', 'v1/ha');
  } catch (e) {
    $('pair').hidden = $('wait').hidden = true;
    if (e.status === 401 || e.status === 403) {
      responds();
      if (role !== 'tenant') await identify();
      badge('state', '–', '');
      badge('up', role === 'tenant' ? 'tenant' : 'sign in', 'warn');
      replace($('summary'), e.message);
      if (role === 'none' && before !== 'none') {
        forget();
        route(true);
        notice(signedOut);
      }
      return;
    }
    badge('state', '–', '');
    badge('up', 'no response', 'bad');
    if (!lost) say('The manager does not respond.');
    lost ||= new Date();
    document.body.classList.add('mute'); // what it shows is of before
    const text = `The manager does not respond since ${clock(lost)}; what is shown is of then. Retrying.`;
    if (other) replace($('summary'), `${text} The other one of the pair is at `, page(other));
    else replace($('summary'), text);
    throw e;
  }
  const was = status;
  status = s;
  ha = h;
  await renewed(was, out);
  waiting(s);
  const active = pair(h);
  document.body.classList.toggle('standby', !active); // a standby knows nothing of the subnet
  if (spare !== !active) { // views are of an active manager
    spare = !active;
    route(true);
  }
  badge('state', s.state, s.state === 'MASTER' ? 'good' : 'warn');
  badge('up', s.subnet_up ? 'SUBNET UP' : s.phase, s.subnet_up || !active && s.phase === 'paired' ? 'good' : 'warn');
  replace($('summary'), `port ${s.port} ${s.port_guid}` + (active ? `, LID ${s.lid}, priority ${s.priority}, generation ${num(s.generation)}` : '') +
    (s.master ? `; master is ${s.master}` : ''));
  replace($('version'), `Heddle ${s.version}`);
  if (!active) return;
  const f = (await request('GET', 'v1/findings?by=severity&limit=1')).counts, all = f.critical + f.warning + f.info;
  $('wrong').hidden = !all;
  replace($('wrong'), `${num(all)} finding${all === 1 ? '' : 's'}`);
  $('wrong').className = `badge ${f.critical ? 'bad' : f.warning ? 'warn' : ''}`;
}

// responds is for an answer after silence.
function responds() {
  document.body.classList.remove('mute');
  if (!lost) return;
  const s = Math.round((Date.now() - lost) / 1000);
  lost = null;
  notice(`The manager responds again, after ${s} s.`);
  trouble('');
}

// renewed shows anew what belongs to another run of the manager, whose numbers begin anew, or to a user
// who was signed out, as the text out says.
async function renewed(was, out) {
  const silent = Boolean(lost);
  responds();
  const again = was && was.started !== status.started;
  if (!again && !out) return;
  await identify();
  restart();
  route(true);
  if (!again) {
    notice(out);
    return;
  }
  const text = `${silent ? 'The manager responds again. It' : 'The manager'} was started at ${clock(status.started)}; all is shown anew.${out && ` ${out}`}`;
  if (was.version === status.version) notice(text);
  else notice(`${text} It is version ${status.version}, this page of ${was.version}: `, button('Load the page anew', () => location.reload()));
}

// poll refreshes the header, unless that is going on: a large fabric on a slow machine takes its time. What
// fails is asked for again.
let polling = null;
function poll() {
  if (role === 'none') return Promise.resolve(); // until somebody signs in
  return polling ??= refresh().catch(e => console.info(e.message)).finally(() => { polling = null; });
}

// ---- views ----

let current = null; // name, path, ctx, end, and what show returned

function parse() {
  const [path, query] = (location.hash.startsWith('#/') ? location.hash.slice(2) : '').split(/\?(.*)/s);
  const parts = path.split('/').map(p => { try { return decodeURIComponent(p); } catch { return p; } });
  return { name: parts[0], path: parts.slice(1), query: new URLSearchParams(query || '') };
}

function context(end, main) {
  const mine = new Set();
  end.signal.addEventListener('abort', () => { for (const l of mine) { listeners.delete(l); wakes.delete(l); } });
  const guarded = async fn => {
    try {
      const v = await fn();
      if (!end.signal.aborted) trouble('');
      return v;
    } catch (e) {
      if (!end.signal.aborted && !document.body.classList.contains('mute')) trouble(e.message);
      throw e;
    }
  };
  return {
    get: path => guarded(() => request('GET', path, undefined, end.signal)),
    send: async (method, path, body, match) => {
      const v = await request(method, path, body, undefined, match);
      soon();
      return v;
    },
    go(hash, instead) {
      if (instead) { history.replaceState(null, '', hash); route(); } else location.hash = hash;
    },
    live(kind, fn) {
      const l = { kind, fn };
      mine.add(l);
      listeners.add(l);
    },
    every(ms, fn) {
      let busy = false, again = false, timer = 0;
      const turn = async () => {
        if (end.signal.aborted) return;
        if (busy) { again = true; return; }
        busy = true;
        clearTimeout(timer);
        try {
          await (polling || status || poll());
          if (status && !end.signal.aborted) await fn(status);
        } catch (e) {
          if (!end.signal.aborted) console.info(e.message);
        }
        busy = false;
        timer = setTimeout(turn, again ? 50 : ms);
        again = false;
      };
      mine.add(turn);
      wakes.add(turn);
      end.signal.addEventListener('abort', () => clearTimeout(timer));
      turn();
      return turn;
    },
    recent: () => recent,
    say, may, main,
    signal: end.signal,
    get role() { return role; },
    get name() { return caller; },
    get status() { return status; },
    get ha() { return ha; },
  };
}

// route shows the view that the address names.
async function route(again) {
  const at = parse();
  const view = views[at.name] || null;
  if (current && !again && current.name === at.name && current.shown?.query && current.path.join('/') === at.path.join('/')) {
    current.shown.query(at);
    return;
  }
  const first = !current;
  current?.end.abort();
  current?.shown?.close?.();
  const main = $('view'), end = new AbortController();
  const mine = current = { name: at.name, path: at.path, end, shown: null };
  trouble('');
  main.replaceChildren();
  const title = view ? view.title : 'No such view';
  document.title = `${title} – Heddle`;
  main.dataset.view = at.name || 'overview';
  $('nav').dataset.open = 'no';
  $('menu').setAttribute('aria-expanded', 'false');
  for (const a of $('nav').querySelectorAll('a')) {
    if (a.getAttribute('href') === `#/${at.name}`) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  if (!first && !again) main.focus(); // the keyboard goes on at the new view, and readers say its title
  main.setAttribute('aria-label', title);
  if (role === 'none') {
    badge('up', 'sign in', 'warn');
    replace($('summary'), 'Sign in to see the subnet that this manager runs.');
    const p = section('Sign in', element('p', '', 'This address shows nothing of the subnet without a token or a client certificate.'), element('p', '', button('Sign in…', () => signIn(''))));
    main.append(p);
    return;
  }
  if (!view) {
    main.append(element('p', '', 'There is no such view.'));
    return;
  }
  if (spare && !['', 'actions'].includes(at.name)) {
    const text = element('p', '', 'This manager is standby: it shows no subnet while another one is active. ');
    if (ha.active_at) text.append('The active manager is at ', page(ha.active_at, location.hash), '.');
    main.append(section(title, text));
    return;
  }
  try {
    const module = await import(`./views/${view.file || at.name}.js`);
    if (end.signal.aborted) return;
    const shown = await module.show(main, at, context(end, main));
    if (end.signal.aborted) shown?.close?.();
    else mine.shown = shown;
  } catch (e) {
    if (!end.signal.aborted) trouble(e.message);
  }
}

// ---- start ----

for (const [name, v] of Object.entries(views)) if (v.nav) $('nav').append(link(`#/${name}`, v.title), ' ');
$('skip').addEventListener('click', e => { e.preventDefault(); $('view').focus(); });
$('menu').addEventListener('click', () => {
  const open = $('nav').dataset.open !== 'yes';
  $('nav').dataset.open = open ? 'yes' : 'no';
  $('menu').setAttribute('aria-expanded', String(open));
});
const themeName = () => { replace($('theme'), document.documentElement.dataset.theme === 'dark' ? 'Light' : 'Dark'); };
addEventListener('theme', themeName);
themeName();
$('theme').addEventListener('click', () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
$('who').addEventListener('click', () => signIn(''));
$('search').addEventListener('submit', e => {
  e.preventDefault();
  const q = $('searchText').value.trim();
  if (q) location.hash = `#/search?q=${encodeURIComponent(q)}`;
});
addEventListener('hashchange', () => route());

await identify().catch(() => {}); // poll says that the manager does not respond
restart();
poll();
route();
setInterval(poll, 2000);
