// The status page: polls the status, follows the event stream and draws the
// fabric. No libraries; the server has already placed the switches on levels.

import { refreshTables } from './tables.js';

const $ = id => document.getElementById(id);
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const num = n => n.toLocaleString('en-US');

async function get(path) {
  const r = await fetch(path, { headers: { Accept: 'application/json' } });
  if (!r.ok) throw new Error(`${path}: ${r.status}`);
  return r.json();
}

// ---- numbers ----

let drawn = -1, told = -1; // generation of the drawing, and of the one on the canvas
let useDue = 0; // when the use of cables is asked for again: at most an eleventh of the time goes into drawing
let asked = null; // time of the last poll, and the number of answered SA requests then

// rate is how many SA requests were answered per second since the last poll.
function rate(answered) {
  const now = performance.now(), last = asked;
  if (last && now - last.at < 1000) return last.rate;
  const n = last && answered >= last.answered ? (answered - last.answered) * 1000 / (now - last.at) : 0;
  asked = { at: now, answered, rate: Math.round(n) };
  return asked.rate;
}

// quorum shows how the manager stands to the state that it shares with others in etcd.
function quorum(h, el) {
  const q = h.quorum, ago = t => t < 0 ? 'not yet' : `${t.toFixed(1)} s ago`;
  const state = { term: 'has the term', away: 'has the term, but etcd does not answer', refused: 'master without the term',
    follower: 'follows without the term' }[h.state] || h.state;
  const parts = [state, `term ${num(q.term)} of ${q.term_owner}`, `entry ${num(q.entry)}`, `last sync ${ago(q.sync_seconds)}`];
  if (h.why) parts.push(h.why);
  if (q.refused_seconds) parts.push(`for ${q.refused_seconds.toFixed(0)} s`);
  el.textContent = `Shared state: ${parts.join('; ')}`;
  el.className = h.why ? 'bad' : '';
}

let other = ''; // where the partner's API is, as far as this manager said

// page is a link to the page of another manager, or its address if that is none of HTTP.
function page(at) {
  const a = document.createElement('a');
  a.textContent = at;
  try { a.href = new URL(`http://${at}/`).href; } catch (e) { return at; }
  return a;
}

// show replaces an element's contents if they change: a reader of the screen says what changed.
function show(el, ...parts) {
  if (el.textContent !== parts.map(p => p.textContent ?? p).join('')) el.replaceChildren(...parts);
}

// pair shows how the manager stands to its partner, or to a shared state, and returns whether this process runs a manager.
function pair(h) {
  const p = h.pair, el = $('pair');
  el.hidden = !p && !h.quorum;
  if (h.quorum) quorum(h, el);
  if (!p) return h.active;
  other = p.peer_api || other;
  const ago = t => t < 1 ? 'just now' : `${t.toFixed(0)} s ago`; // a line that does not change all the time
  const heard = t => t < 0 ? 'not heard' : `heard ${ago(t)}`;
  const good = h.state === 'paired';
  const spare = good ? (h.active ? 'the partner has all changes' : 'has all changes') : { alone: 'no spare: the partner is away', waiting: 'changes wait for the partner',
    copying: 'copies the state', stale: 'may lack changes', starting: 'starts' }[h.state] || h.state;
  const signs = [p.stream_sign_seconds, p.fabric_sign_seconds].filter(t => t >= 0);
  const role = Math.min(...signs) > 2 ? '' : p.peer_active ? ' active' : ' standby'; // a silent one is what it was
  const since = h.since ? ` since ${new Date(h.since).toLocaleTimeString('en-GB')}` : '';
  const parts = [`${h.active ? 'active' : 'standby'}${since}${h.why ? `: ${h.why}` : ''}`, spare, `term ${num(p.term)}`,
    p.sync_seconds < 0 ? 'never in sync' : `last sync ${ago(p.sync_seconds)}`,
    `partner ${p.peer}${role}, ${heard(p.stream_sign_seconds)} over TCP, ${heard(p.fabric_sign_seconds)} in the subnet`];
  if (p.lag_entries) parts.push(`${num(p.lag_entries)} change${p.lag_entries === 1 ? '' : 's'} behind for ${p.lag_seconds.toFixed(0)} s`);
  if (!p.port_usable) parts.push('its port is down');
  if (p.stream_error && h.state !== 'paired') parts.push(p.stream_error);
  const line = `Pair: ${parts.join('; ')}`;
  el.className = good && p.port_usable ? '' : 'bad';
  if (!h.active && h.active_at) show(el, `${line}. The active manager is at `, page(h.active_at));
  else show(el, line);
  return h.active;
}

async function refresh() {
  let s, active;
  try {
    s = await get('v1/status');
    active = pair(await get('v1/ha'));
  } catch (e) {
    badge('state', '–', '');
    badge('up', 'no response', 'bad');
    document.body.classList.add('mute'); // what it shows is of before
    const text = 'The manager does not respond; retrying.';
    if (other) show($('summary'), `${text} The other one of the pair is at `, page(other));
    else show($('summary'), text);
    $('pair').hidden = true;
    return;
  }
  document.body.classList.remove('mute');
  document.body.classList.toggle('standby', !active); // a standby knows nothing of the subnet
  badge('state', s.state, s.state === 'MASTER' ? 'good' : 'warn');
  badge('up', s.subnet_up ? 'SUBNET UP' : s.phase, s.subnet_up || !active && s.phase === 'paired' ? 'good' : 'warn');
  show($('summary'), `port ${s.port} ${s.port_guid}` + (active ? `, LID ${s.lid}, priority ${s.priority}` : '') +
    (s.master ? `; master is ${s.master}` : ''));
  $('version').textContent = `Heddle ${s.version}`;
  if (!active) return;
  counts('counts', [
    ['switches', s.switches], ['hosts', s.cas], ['routers', s.routers || null],
    ['links active', s.links_active, s.links_active < s.links ? `of ${num(s.links)}` : ''],
    ['LIDs', s.lids], ['virtual ports', s.vports || null],
    ['VM interfaces', s.vms || null, s.vms_pending ? `, ${num(s.vms_pending)} changing` : ''], ['do not answer', s.unseen || null, s.own_silent ? ', including the own agent' : '', true],
    ['problems', s.problems, '', s.problems > 0],
    ['sweeps', s.sweeps], ['light sweeps', s.light_sweeps],
    ['SMPs sent', s.smps_sent], ['timed out', s.smps_timed_out, '', s.smps_timed_out > 0],
  ]);
  const p = s.partitions;
  counts('sa', [
    ['SA answers', s.sa.answered], ['per second', rate(s.sa.answered)], ['answered BUSY', s.sa.busy],
    ['groups', s.sa.groups], ['group members', s.sa.group_members],
    ['services', s.sa.services], ['subscriptions', s.sa.subscriptions],
    ['partitions', p.count, p.settled ? '' : 'changing'],
    ['ports pending', p.pending_ports, '', p.pending_ports > 0],
    ['P_Keys freed', p.quarantined || null],
  ]);
  sweep(s);
  repairs(await get('v1/repairs'));
  await refreshTables(get);
  if (s.generation === drawn && performance.now() < useDue) return;
  const began = performance.now();
  const use = await get('v1/use');
  if (s.generation !== drawn) {
    picture = await get('v1/drawing');
    drawn = picture.generation;
  }
  const changed = s.generation !== told || use.source || used;
  told = s.generation;
  used = use.source ? use : null;
  if (picture && changed) draw(picture);
  useDue = use.source && !use.seconds ? 0 : performance.now() + 10 * (performance.now() - began); // 0: it is being measured
}

function badge(id, text, kind) {
  $(id).textContent = text;
  $(id).className = `badge ${kind}`;
}

function counts(id, rows) {
  $(id).replaceChildren(...rows.filter(r => r[1] !== null).map(([name, n, more, bad]) => {
    const d = document.createElement('div');
    if (bad) d.className = 'bad';
    const b = document.createElement('b'), t = document.createElement('span');
    b.textContent = num(n);
    t.textContent = more ? `${name} ${more}` : name;
    d.append(b, t);
    return d;
  }));
}

const phaseOrder = ['discover', 'assign', 'readback', 'route', 'discard', 'drain', 'distribute', 'top', 'lanes', 'arm', 'activate'];

function sweep(s) {
  const p = s.last_sweep.phases || {};
  const names = Object.keys(p).sort((a, b) => phaseOrder.indexOf(a) - phaseOrder.indexOf(b));
  const most = Math.max(...Object.values(p), 1e-9);
  $('phases').replaceChildren(...names.map(n => {
    const row = document.createElement('div');
    row.className = 'phase';
    const a = document.createElement('span'), bar = document.createElement('i'), v = document.createElement('span');
    a.textContent = n;
    bar.style.width = `${100 * p[n] / most}%`;
    v.textContent = seconds(p[n]);
    row.append(a, bar, v);
    return row;
  }));
  const l = s.last_sweep;
  $('transition').textContent = l.seconds ? `${seconds(l.seconds)} in all, ${l.region ? 'region' : 'full'} sweep; ${num(l.lft_blocks_sent)} LFT blocks sent; ${l.transition || 'no change of routes'}` : 'none yet';
  $('engine').textContent = s.engine ? `routes by ${s.engine}` + (s.engine_reason ? `; ${s.engine_reason}` : '') : '';
}

// repairs lists the last faults that broke pairs, the newest first.
function repairs(list) {
  const line = (tag, text, kind) => {
    const e = document.createElement(tag);
    e.textContent = text;
    if (kind) e.className = kind;
    return e;
  };
  if (!list.length) {
    $('faults').replaceChildren(line('li', 'no fault has broken a pair since the manager started', 'none'));
    return;
  }
  $('faults').replaceChildren(...list.map(r => {
    const li = document.createElement('li'), when = new Date(r.time);
    const t = line('time', when.toLocaleTimeString('en-GB'));
    t.dateTime = r.time;
    const more = r.more_faults ? ` and ${num(r.more_faults)} more` : '';
    const p = document.createElement('p'), connected = r.pairs_broken - r.pairs_left;
    p.append(`${num(r.pairs_broken)} pair${r.pairs_broken === 1 ? '' : 's'} broken`);
    if (connected) p.append(`, connected in ${seconds(r.seconds)}`);
    if (r.drains) p.append(`, ${r.drains} drain${r.drains === 1 ? '' : 's'} of ${seconds(r.drain_seconds)} in all`);
    if (r.pairs_left) p.append(', ', line('span', `${num(r.pairs_left)} left broken`, 'bad'));
    if (r.risk) {
      const mark = line('em', 'transient cycle possible');
      mark.title = `${r.risk.why}\nfor at most ${seconds(r.risk.worst_seconds)}\n${r.risk.channels.join('\n')}`;
      p.append(', ', mark);
    }
    li.append(t, line('b', r.faults.length ? r.faults.join(', ') + more : r.reason), p);
    li.title = `${r.mode} in ${r.stages} stage${r.stages === 1 ? '' : 's'}, policy ${r.policy}\n${r.reason}`;
    return li;
  }));
}

const seconds = t => t < 1 ? `${(t * 1000).toFixed(t < 0.01 ? 1 : 0)} ms` : `${t.toFixed(2)} s`;

// ---- drawing ----

const canvas = document.querySelector('#canvas canvas');
let picture = null, spots = [], used = null;

const steps = 5; // colors of use, --use0 to --use4
const percent = x => `${+(100 * x).toPrecision(2)} %`;

// scale is the end of the colors: the least of 1, 2, 5, 10, 20 … that the busiest
// cable does not exceed, so that light loads show too. It says so in the legend.
function scale(most) {
  if (!(most > 0)) return 1;
  const ten = 10 ** Math.floor(Math.log10(most));
  return Math.min(1, [1, 2, 5, 10].map(k => k * ten).find(x => x >= most * 0.999) || 10 * ten);
}

const name = id => {
  for (const row of picture.levels || []) for (const n of row) if (n.id === id) return n.name || n.guid;
  return '?';
};

// bits prints a rate: "97 kb/s".
function bits(gbps) {
  const units = [['Gb/s', 1], ['Mb/s', 1e-3], ['kb/s', 1e-6], ['b/s', 1e-9]];
  const [unit, k] = units.find(u => gbps >= u[1]) || units[3];
  return `${+(gbps / k).toPrecision(3)} ${unit}`;
}

// legend says what the colors of cables mean, and which cable is the busiest.
function legend(top, most) {
  $('scale').hidden = !used;
  $('map').hidden = !used;
  $('stateKey').hidden = Boolean(used);
  if (!used) return;
  const text = (t, kind) => {
    const e = document.createElement('span');
    e.textContent = t;
    e.className = kind || '';
    return e;
  };
  const keys = [text('idle')];
  for (let i = 0; i < steps; i++) {
    const k = document.createElement('i');
    k.className = `key use${i}`;
    k.title = `${percent(top * i / steps)} to ${percent(top * (i + 1) / steps)} of the rate of a cable`;
    keys.push(k);
  }
  const p = text(most.use > 0
    ? `busiest cable: ${bits(most.use * most.gbps)}, ${percent(most.use)} of its rate, ${name(most.from)} to ${name(most.to)}`
    : used.seconds > 0 ? 'no cable carries packets' : 'measuring…', 'more');
  p.title = `${used.source}, mean of ${Math.round(used.seconds)} s; of parallel cables the busiest`;
  $('scale').replaceChildren(...keys, text(percent(top)), p);
}

// drawMap draws a cell for each pair of switches that have cables, the left half
// for the way up and the right half for the way down: 648 lines that cross say
// little, 648 cells much. Levels are as in the drawing above.
function drawMap(d, linkOf, color) {
  const canvas = $('map').querySelector('canvas');
  const levels = (d.levels || []).map(row => row.map(n => n.id)), level = new Map();
  levels.forEach((row, i) => row.forEach(id => level.set(id, i)));
  const maps = new Map(); // lower level, upper level
  for (const l of linkOf.values()) {
    const x = level.get(l.a), y = level.get(l.b);
    if (x !== undefined && y !== undefined) maps.set(Math.min(x, y) * 64 + Math.max(x, y), [Math.min(x, y), Math.max(x, y)]);
  }
  const dpr = devicePixelRatio || 1, w = canvas.clientWidth, left = 86, gap = 22;
  const sizes = [...maps.keys()].sort((a, b) => b - a).map(k => {
    const [lo, hi] = maps.get(k), cols = levels[lo], rows = levels[hi];
    return { cols, rows, lo, hi, cw: (w - left - 12) / cols.length, ch: Math.max(1, Math.min(9, 300 / rows.length)) };
  });
  const h = sizes.reduce((a, s) => a + s.rows.length * s.ch + gap, 0);
  canvas.style.height = `${h}px`;
  canvas.width = w * dpr;
  canvas.height = h * dpr;
  const g = canvas.getContext('2d');
  g.scale(dpr, dpr);
  g.font = '12px system-ui, sans-serif';
  g.textBaseline = 'top';
  cells = [];
  let top = 0;
  for (const s of sizes) {
    g.fillStyle = css('--soft');
    g.fillText(`level ${s.hi + 1}`, 4, top);
    g.fillText(`level ${s.lo + 1}, from left to right; each cell: up, down`, left, top + s.rows.length * s.ch + 3);
    s.rows.forEach((up, r) => s.cols.forEach((down, c) => {
      const l = linkOf.get(Math.min(up, down) * 65536 + Math.max(up, down));
      if (!l) return;
      const there = l.a === down ? l.ab : l.ba, back = l.a === down ? l.ba : l.ab;
      const x = left + c * s.cw, y = top + r * s.ch, edge = s.cw > 4 ? 1 : 0, half = (s.cw - edge) / 2;
      g.fillStyle = color(there);
      g.fillRect(x, y, half, s.ch - (s.ch > 3 ? 1 : 0));
      g.fillStyle = color(back);
      g.fillRect(x + half, y, half, s.ch - (s.ch > 3 ? 1 : 0));
    }));
    cells.push({ ...s, left, top, linkOf });
    top += s.rows.length * s.ch + gap;
  }
}
let cells = [];

function draw(d) {
  picture = d;
  const dpr = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  canvas.width = w * dpr;
  canvas.height = h * dpr;
  const g = canvas.getContext('2d');
  g.scale(dpr, dpr);
  g.clearRect(0, 0, w, h);
  spots = [];
  const good = css('--good'), warn = css('--warn'), bad = css('--bad'), soft = css('--soft'), ink = css('--ink');
  const levels = d.levels || [];
  if (!levels.length) {
    g.fillStyle = soft;
    g.fillText('nothing discovered yet', 12, 20);
    return;
  }
  const left = 86, top = 30, bottom = h - 56, at = new Map();
  levels.forEach((row, i) => {
    const y = levels.length === 1 ? (top + bottom) / 2 : bottom - i * (bottom - top) / (levels.length - 1);
    row.forEach((n, j) => at.set(n.id, { x: left + (w - left - 12) * (j + 0.5) / row.length, y, n, level: i }));
  });
  // Links: faint if there are many, but always plain if one has failed.
  const links = d.links || [];
  const alpha = Math.max(0.06, Math.min(0.7, 60 / Math.sqrt(links.length * 12 + 1)));
  const strokes = (list, color, a, width) => {
    g.globalAlpha = a;
    g.strokeStyle = color;
    g.lineWidth = width;
    g.beginPath();
    for (const l of list) {
      const p = at.get(l.a), q = at.get(l.b);
      if (!p || !q) continue;
      g.moveTo(p.x, p.y);
      if (p.level === q.level) g.quadraticCurveTo((p.x + q.x) / 2, p.y - Math.min(60, 8 + Math.abs(p.x - q.x) / 4), q.x, q.y);
      else g.lineTo(q.x, q.y);
    }
    g.stroke();
    g.globalAlpha = 1;
  };
  // By use if it is measured: the busy ones last, dark and wide. Those with a failed
  // cable are dashed, so that colors are not all that tells them apart.
  const share = new Map(), most = { use: 0 };
  for (const l of used && used.generation === d.generation ? used.links : []) {
    share.set(l.a * 65536 + l.b, Math.max(l.ab, l.ba));
    if (l.ab > most.use) Object.assign(most, { use: l.ab, gbps: l.gbps, from: l.a, to: l.b });
    if (l.ba > most.use) Object.assign(most, { use: l.ba, gbps: l.gbps, from: l.b, to: l.a });
  }
  const end = scale(most.use), step = x => Math.min(steps - 1, Math.floor(steps * (x || 0) / end));
  const busy = l => step(share.get(l.a * 65536 + l.b));
  const whole = links.filter(l => l.up === l.n);
  if (used) {
    const dense = Math.min(1, 10 / Math.sqrt(links.length + 1)); // many lines are thin and faint
    for (let i = 0; i < steps; i++) {
      const k = i / (steps - 1);
      strokes(whole.filter(l => busy(l) === i), css(`--use${i}`), Math.min(1, dense * (0.6 + k)), 0.5 + 0.7 * k + 1.5 * k * dense);
    }
  } else {
    strokes(whole, good, alpha, 1);
  }
  g.setLineDash([6, 3]);
  strokes(links.filter(l => l.up > 0 && l.up < l.n), warn, 0.9, 1.5);
  g.setLineDash([3, 4]);
  strokes(links.filter(l => l.up === 0), bad, 0.9, 1.5);
  g.setLineDash([]);
  legend(end, most);
  if (used) {
    const colors = Array.from({ length: steps }, (_, i) => css(`--use${i}`));
    const linkOf = new Map((used.generation === d.generation ? used.links : []).map(l => [l.a * 65536 + l.b, l]));
    drawMap(d, linkOf, x => colors[step(x)]);
  }
  const hosts = new Map((used ? used.hosts : []).map(h => [h.switch, h]));
  const traffic = n => {
    if (!used) return '';
    const own = used.links.filter(l => l.a === n.id || l.b === n.id).map(l => l.a === n.id ? [l.ab, l.ba, l.b] : [l.ba, l.ab, l.a]);
    own.sort((x, y) => Math.max(y[0], y[1]) - Math.max(x[0], x[1]));
    const h = hosts.get(n.id), lines = own.slice(0, 3).map(([out, back, to]) => `${name(to)}: ${percent(out)} there, ${percent(back)} back`);
    if (h) lines.push(`busiest host cable: ${percent(h.up)} from, ${percent(h.down)} to the host`);
    return lines.map(l => `\n${l}`).join('');
  };

  g.font = '12px system-ui, sans-serif';
  g.textBaseline = 'middle';
  levels.forEach((row, i) => {
    const size = Math.max(2.5, Math.min(12, 0.38 * (w - left) / row.length));
    const y = at.get(row[0].id).y;
    g.fillStyle = soft;
    g.fillText(`level ${i + 1}`, 4, y - 7);
    g.fillText(`${row.length} switch${row.length === 1 ? '' : 'es'}`, 4, y + 8);
    for (const n of row) {
      const { x } = at.get(n.id);
      g.fillStyle = n.state === 'ok' ? ink : bad;
      g.fillRect(x - size / 2, y - size / 2, size, size);
      spots.push({ x, y, r: size / 2 + 3, text: `${n.name}\n${n.guid}\n${n.hosts} hosts, ${n.hosts_active} active\n${n.state}${traffic(n)}` });
      if (n.hosts) { // the hosts of a switch: a bar whose filled part is the share of active hosts
        const by = y + size / 2 + 5, bh = Math.min(26, 3 + n.hosts);
        const bw = Math.max(2, size * 0.8);
        g.fillStyle = bad;
        g.fillRect(x - bw / 2, by, bw, bh);
        g.fillStyle = good;
        g.fillRect(x - bw / 2, by, bw, bh * n.hosts_active / n.hosts);
      }
    }
  });
  const count = levels.flat().reduce((a, n) => a + n.hosts, 0);
  g.fillStyle = soft;
  g.fillText(`${num(count)} hosts: the bar below a switch is what hangs on it; red is what has gone`, left, h - 10);
}

// tips shows what find says about a place on a canvas.
function tips(canvas, tip, find) {
  canvas.addEventListener('mousemove', e => {
    const b = canvas.getBoundingClientRect(), x = e.clientX - b.left, y = e.clientY - b.top;
    const text = find(x, y);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.min(x + 12, b.width - 260)}px`;
    tip.style.top = `${y + 12}px`;
  });
  canvas.addEventListener('mouseleave', () => { tip.hidden = true; });
}
tips(canvas, $('tip'), (x, y) => spots.find(s => Math.abs(s.x - x) <= s.r && Math.abs(s.y - y) <= s.r)?.text);
tips($('map').querySelector('canvas'), $('maptip'), (x, y) => {
  for (const s of cells) {
    const down = s.cols[Math.floor((x - s.left) / s.cw)], up = s.rows[Math.floor((y - s.top) / s.ch)];
    const l = down !== undefined && up !== undefined && s.linkOf.get(Math.min(up, down) * 65536 + Math.max(up, down));
    if (!l) continue;
    const there = l.a === down ? l.ab : l.ba, back = l.a === down ? l.ba : l.ab;
    return `${name(down)} to ${name(up)}: ${bits(there * l.gbps)}, ${percent(there)}\n${name(up)} to ${name(down)}: ${bits(back * l.gbps)}, ${percent(back)}`;
  }
  return '';
});
addEventListener('resize', () => picture && draw(picture));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => picture && draw(picture));

// ---- events ----

const kept = 200;

function addEvent(e) {
  const li = document.createElement('li'), t = document.createElement('time'), m = document.createElement('span');
  const when = new Date(e.time);
  t.dateTime = e.time;
  t.textContent = when.toLocaleTimeString('en-GB');
  m.textContent = e.message;
  m.className = e.level;
  const a = { ...e.attrs }, where = [a.node || a.node_guid, a.port && `port ${a.port}`].filter(Boolean).join(' ');
  if (where) {
    const w = document.createElement('b');
    w.textContent = `${where}: `;
    m.prepend(w);
  }
  // The tooltip has the rest.
  m.title = Object.entries(a).map(([k, v]) => `${k} ${v}`).join('\n');
  li.append(t, m);
  const log = $('log');
  log.prepend(li);
  while (log.children.length > kept) log.lastElementChild.remove();
}

const source = new EventSource('v1/events/stream');
source.onmessage = m => { addEvent(JSON.parse(m.data)); soon(); };

let due = 0;
function soon() { // an event usually means new numbers; poll at most once per quarter second
  if (!due) due = setTimeout(() => { due = 0; poll(); }, 250);
}

// poll refreshes the page, unless that is going on: a large fabric on a slow machine takes its time. What
// fails is asked for again.
let polling = false;
async function poll() {
  if (polling) return;
  polling = true;
  try { await refresh(); } catch (e) { console.info(e); } finally { polling = false; }
}

poll();
setInterval(poll, 2000);
