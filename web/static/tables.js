// Tables of the status page: findings, hot spots, and the worst ports. The server chooses and bounds the rows.

const $ = id => document.getElementById(id);
const num = n => n.toLocaleString('en-US');
const shown = { findings: 12, hotspots: 8, ports: 8 }; // rows of a table

// element makes an element with text or children; kind is its class.
function element(tag, kind, ...content) {
  const e = document.createElement(tag);
  if (kind) e.className = kind;
  e.append(...content);
  return e;
}

// percent has enough digits for a gentle load.
const percent = x => `${x * 100 < 1 ? +(100 * x).toPrecision(2) : (100 * x).toFixed(1)} %`;
const rate = x => `${x < 1000 ? +x.toPrecision(2) : num(Math.round(x))}/s`;

// ago is a time as people say it: "5 min".
function ago(time) {
  const s = Math.max(0, (Date.now() - new Date(time)) / 1000);
  for (const [unit, k] of [['d', 86400], ['h', 3600], ['min', 60]]) if (s >= 2 * k) return `${Math.floor(s / k)} ${unit}`;
  return `${Math.floor(s)} s`;
}

// place is a port with a link to its counters, or a node.
function place(e) {
  const name = e.description || e.guid;
  if (!e.port) return element('span', '', name);
  const a = element('a', '', `${name} port ${e.port}`);
  a.href = `v1/ports/${e.guid}/${e.port}/counters`;
  a.title = `${e.guid}: all counters of the port`;
  return a;
}

// within keeps the keyboard's place while do replaces what is below root: what had the focus has it again
// if it is still there. Links are told apart by their rows and targets.
function within(root, replace) {
  const at = root.contains(document.activeElement) ? document.activeElement : null;
  const id = e => `${e.closest('[data-key]')?.dataset.key} ${e.tagName} ${e.getAttribute('href')}`;
  const was = at && id(at);
  replace();
  if (at && !root.contains(document.activeElement)) [...root.querySelectorAll('a, summary')].find(e => id(e) === was)?.focus({ preventScroll: true });
}

// ---- findings ----

// fact is one piece of evidence as text.
function fact(e) {
  const parts = [];
  if (e.delta) parts.push(`+${num(e.delta)}${e.per_second ? `, last ${rate(e.per_second)}` : ''}`);
  else if (!e.text) parts.push(`${+e.value.toPrecision(3)}`);
  if (e.text) parts.push(e.text);
  return `${e.what} ${parts.join(', ')}`;
}

const severities = ['critical', 'warning', 'info'];

function findingSummary(f) {
  const where = element('span', 'where');
  f.ends.slice(0, 2).forEach((e, i) => where.append(i ? ' – ' : '', e.description || e.guid, e.port ? ` port ${e.port}` : ''));
  const more = f.ends.length - 2 + (f.more_ends || 0);
  if (more > 0) where.append(` and ${num(more)} more`);
  const t = element('time', '', `for ${ago(f.since)}`);
  t.dateTime = f.since;
  return [element('span', `pill ${f.severity}`, f.severity), element('b', '', f.title), where, t];
}

function findingBody(f) {
  const rows = f.evidence.map(e => [place(e), fact(e), e.delta ? `more than ${num(e.limit)}` : e.limit ? `${+e.limit.toPrecision(3)}` : '']);
  return [element('p', 'do', f.do), grid(['at', 'evidence', 'threshold, or expected'], rows),
    element('p', 'soft', `Finding ${f.id}, rule ${f.rule}; first seen ${new Date(f.since).toLocaleString('en-GB')}, opened ${new Date(f.opened).toLocaleString('en-GB')}`)];
}

// entries shows a list of things that can be opened. Each keeps its element, so one that is open stays
// open; its text is replaced when it changes.
const kept = new Map(); // elements by key

function entries(list, kind, things, summary, body) {
  const keys = new Set(things.map(x => `${kind} ${x.id}`));
  for (const k of kept.keys()) if (k.startsWith(`${kind} `) && !keys.has(k)) kept.delete(k);
  within(list, () => list.replaceChildren(...things.map(x => {
    const key = `${kind} ${x.id}`;
    let li = kept.get(key);
    if (!li) {
      li = element('li', '', element('details', '', element('summary', ''), element('div', 'body')));
      li.dataset.key = key;
      kept.set(key, li);
    }
    li.querySelector('summary').replaceChildren(...summary(x));
    const now = JSON.stringify(x);
    if (li.told !== now) {
      li.told = now;
      const e = li.querySelector('.body');
      within(e, () => e.replaceChildren(...body(x)));
    }
    return li;
  })));
}

// grid is a small table of rows of cells.
function grid(head, rows) {
  const line = (tag, cells) => element('tr', '', ...cells.map(c => element(tag, '', c)));
  return element('div', 'wide', element('table', '', element('thead', '', line('th', head)), element('tbody', '', ...rows.map(r => line('td', r)))));
}

function findings(f) {
  const counts = severities.map(s => [s, f.counts[s]]).filter(c => c[1]);
  const all = counts.reduce((a, c) => a + c[1], 0);
  const text = !f.round ? 'not looked for: no counters have been read (--perf)' : all ? counts.map(([s, n]) => `${num(n)} ${s}`).join(', ') : 'none';
  if ($('findingsCount').textContent !== text) $('findingsCount').textContent = text; // it is read aloud
  const badge = $('wrong'), worst = counts.length ? counts[0][0] : 'info';
  badge.hidden = !all;
  badge.textContent = `${num(all)} finding${all === 1 ? '' : 's'}`;
  badge.className = `badge ${{ critical: 'bad', warning: 'warn', info: '' }[worst]}`;
  entries($('findingsList'), 'finding', f.open, findingSummary, findingBody);
  const rest = all - f.open.length;
  $('findingsRest').textContent = rest > 0 ? `and ${num(rest)} more, of lower severity or older: 'heddle ctl findings'` : '';
  const ended = f.closed.slice(-3).reverse();
  $('findingsEnded').replaceChildren(...ended.map(x => {
    const p = element('p', 'soft', `ended ${ago(x.closed)} ago: ${x.title}`);
    p.append(x.ends.length ? ` at ${x.ends[0].description || x.ends[0].guid}${x.ends[0].port ? ` port ${x.ends[0].port}` : ''}` : '', ` (${x.why_closed})`);
    return p;
  }));
}

// ---- hot spots ----

function names(list, more) {
  const text = list.slice(0, 3).map(h => h.description || h.guid).join(', '), rest = list.length + (more || 0) - 3;
  return rest > 0 ? `${text} and ${num(rest)} more` : text;
}

function hotSummary(h) {
  const where = element('span', 'where', `fed by ${names(h.contributors, h.more_contributors) || 'hosts that are not known'}`);
  const victims = h.victims.length + (h.more_victims || 0);
  if (victims) where.append(`; ${num(victims)} host${victims === 1 ? '' : 's'} may suffer`);
  const t = element('time', '', `for ${ago(h.since)}`);
  t.dateTime = h.since;
  return [element('span', 'pill warning', h.sign), element('b', '', h.host.description || h.host.guid), where, t];
}

function hotBody(h) {
  const row = (what, x) => [what, place(x), percent(x.wait), percent(x.use)];
  const out = [grid(['', 'port', 'waits', 'uses'], [row('before it', { ...h.at, wait: h.wait, use: h.use }),
    ...h.contributors.map(c => row(c.known ? 'feeds it' : 'perhaps feeds it', c)), ...h.victims.map(v => row('may suffer', v))])];
  const facts = [];
  if (h.lane >= 0) facts.push(`lane ${h.lane}`);
  if (h.slow_paths) facts.push(`${num(h.slow_paths)} path${h.slow_paths === 1 ? '' : 's'} on the slow lane, or would be`);
  if (h.refused) facts.push(h.refused);
  if (facts.length) out.push(element('p', 'soft', facts.join('; ')));
  return out;
}

function hotspots(h) {
  $('hotspots').hidden = !h.open_count;
  const text = `${num(h.open_count)}${h.open_count > h.open.length ? `, the newest ${num(h.open.length)}` : ''}; --dftree ${h.dftree}${h.missed ? `; the fabric as a whole is full: ${num(h.missed)} more` : ''}`;
  if ($('hotNote').textContent !== text) $('hotNote').textContent = text;
  entries($('hotList'), 'hot spot', h.open.slice().reverse(), hotSummary, hotBody);
}

// ---- ports ----

// share is a cell with a bar behind its number.
function share(x) {
  const bar = element('i', '');
  bar.style.width = `${Math.min(100, 100 * x)}%`;
  return element('td', 'share', element('span', '', percent(x)), bar);
}

const cell = (text, kind) => element('td', kind || 'n', text);

// errors are counters, those that grow first and with their rates.
function errors(p) {
  const names = Object.keys(p.errors || {}), grow = p.errors_per_second || {};
  names.sort((a, b) => (grow[b] || 0) - (grow[a] || 0) || p.errors[b] - p.errors[a]);
  const td = element('td', '');
  names.slice(0, 3).forEach((n, i) => {
    if (i) td.append(', ');
    td.append(`${n} ${num(p.errors[n])}`);
    if (grow[n]) td.append(' ', element('b', '', `(${rate(grow[n])})`));
  });
  if (names.length > 3) td.append(` and ${names.length - 3} more`);
  return td;
}

const tables = {
  use: { head: ['sent', 'received'], none: 'no port carries packets', cells: p => [share(p.xmit), share(p.rcv)] },
  wait: { head: ['of the time', 'sent'], none: 'no port waits', cells: p => [share(p.wait), share(p.xmit)] },
  discards: {
    head: ['now', 'in all'], none: 'no port discards packets',
    cells: p => [cell(rate((p.errors_per_second || {}).PortXmitDiscards || 0)), cell(num((p.errors || {}).PortXmitDiscards || 0))],
  },
  errors: { head: ['counters'], none: 'no port has errors', cells: p => [errors(p)] },
};

const oddities = { stuck: 'a counter is at its end', silent: 'its agent is silent' };

function ports(w) {
  const note = w.round ? `round ${num(w.round)}, every ${+w.period_seconds.toPrecision(3)} s; ${num(w.ports_polled)} ports` +
    (w.agents_silent ? `; ${num(w.agents_silent)} of ${num(w.agents)} agents are silent` : '')
    : 'no counters have been read: they are with --perf, on the master, after the first period';
  if (w.round && $('portsNote').textContent === note) return; // there is no newer round
  $('portsNote').textContent = note;
  $('tables').hidden = !w.round;
  within($('tables'), () => {
    for (const [by, t] of Object.entries(tables)) {
      const table = $(`by-${by}`), rows = w[by];
      const head = element('tr', '', ...['port', 'to', ...t.head].map((h, i) => element('th', i > 1 && by !== 'errors' ? 'n' : '', h)));
      table.tHead.replaceChildren(...(rows.length ? [head] : []));
      table.tBodies[0].replaceChildren(...rows.map(p => {
        const from = element('td', '', place(p));
        const odd = p.flags.map(f => oddities[f]).filter(Boolean).join(', ');
        if (odd) from.append(element('small', 'odd', ` ${odd}`));
        const to = p.peer ? element('td', 'to', `${p.peer.description || p.peer.guid} port ${p.peer.port}`) : element('td', 'to', '–');
        const tr = element('tr', '', from, to, ...t.cells(p));
        tr.dataset.key = by;
        return tr;
      }));
      if (!rows.length) table.tBodies[0].append(element('tr', '', element('td', 'soft', t.none)));
    }
  });
}

// refreshTables asks the server and draws the tables. get reads JSON.
export async function refreshTables(get) {
  const [f, h, w] = await Promise.all([
    get(`v1/findings?by=severity&limit=${shown.findings}`), get(`v1/hotspots?limit=${shown.hotspots}`), get(`v1/worst?limit=${shown.ports}`),
  ]);
  findings(f);
  hotspots(h);
  ports(w);
}
