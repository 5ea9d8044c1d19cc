// The map: groups of switches, what is wrong, a path between two hosts, and how it was at other times. The
// address has all of it: #/map?unit=0x…&at=12&changes=1.

import { chart } from '../chart.js';
import { outOfUse } from '../links.js';
import { timeline } from './timeline.js';
import { $, button, count, element, grid, html, link, num, section } from '../dom.js';

export const keep = true;

const page = `<section id="fabric" aria-label="Map"><h2>Map <small id="mapNote"></small></h2>
  <div id="mapTools" class="buttons"></div>
  <div id="chart"><canvas tabindex="0" role="application" aria-label="Map of the subnet. Arrow keys move it, plus and minus zoom, 0 shows all, Enter opens the group in the middle. The tables below say the same." aria-describedby="mapNote"></canvas><div id="tip" hidden></div></div>
  <p id="mapKey" class="soft"></p><div id="timeline"></div></section><div id="twin"></div>`;

const rowsShown = 200;

// legend says what lines and signs mean.
export function legend() {
  return 'Lines are bundles of cables, the thicker the more. Dashed: some are not active; dotted: none is. Signs: × gone, ? does not answer, ‖ held down, – not active, ! finding, ⊖ drained, ⊘ isolated. A group has a red frame if it has problems, a dashed one if links of it are out of use. A number of cables counts those that have gone.';
}

// stage makes the canvas of a view and what it needs.
export function stage(main, ctx, address) {
  const canvas = main.querySelector('canvas'), tip = $('tip');
  const c = chart(canvas, {
    fetch: (level, unit) => ctx.get(`v1/map?level=${level}&unit=${unit}${address()}`),
    tip(text, x, y) {
      tip.hidden = !text;
      tip.textContent = text;
      tip.style.left = `${Math.min(x + 12, canvas.clientWidth - 220)}px`;
      tip.style.top = `${y + 12}px`;
    },
    pick(u) {
      if (u.group) ctx.go(with_({ unit: u.group.id }));
      else if (u.node) ctx.go(`#/node/${u.node.id}`);
      else if (u.problem) ctx.go(u.problem.a_port ? `#/port/${u.problem.a}/${u.problem.a_port}` : `#/node/${u.problem.a}`);
    },
    say: ctx.say,
  });
  globalThis.mapStats = c.stats; // for measurements
  return c;
}

// with_ is the address of the map with some parameters changed; '' takes one away.
function with_(change) {
  const q = new URLSearchParams(location.hash.split(/\?(.*)/s)[1] || '');
  for (const [k, v] of Object.entries(change)) if (v === '' || v === null) q.delete(k); else q.set(k, v);
  return `#/map${q.size ? `?${q}` : ''}`;
}

// base gets the map of the whole subnet: with its switches at once if these are few.
export async function base(ctx, address) {
  const m = await ctx.get(`v1/map?level=1${address}`);
  const n = m.groups.reduce((a, g) => a + g.switches, 0);
  return n <= 300 ? ctx.get(`v1/map?level=2${address}`) : m;
}

const place = (name, id, port) => link(port ? `#/port/${id}/${port}` : `#/node/${id}`, port ? `${name} port ${port}` : name);

function list(title, problems) {
  const rows = problems.slice(0, rowsShown).map(p => [place(p.a_name, p.a, p.a_port), p.b ? place(p.b_name, p.b, p.b_port) : '', p.text,
    p.since ? new Date(p.since * 1000).toLocaleString('en-GB') : '']);
  return section(`${title} (${num(problems.length)})`, grid(title, ['at', 'to', 'what', 'since'], rows));
}

// twin is the map as tables.
function twin(m, unit) {
  const parts = [];
  if (m.changes?.length) parts.push(list('Changes', m.changes));
  const wrong = m.problems.filter(p => !outOfUse(p)), out = m.problems.filter(outOfUse);
  if (wrong.length) parts.push(list('Problems', wrong));
  if (out.length) parts.push(list('Links out of use', out));
  const own = m.groups.find(g => g.id === unit);
  const G = m.groups.length, S = m.switches.length;
  if (own) {
    const to = new Map();
    for (const b of m.bundles) {
      for (const [s, t] of [[b.a, b.b], [b.b, b.a]]) {
        if (s < G || s >= G + S) continue;
        if (!to.has(s)) to.set(s, { n: 0, up: 0 });
        if (t < G + S) { to.get(s).n += b.n; to.get(s).up += b.up; }
      }
    }
    parts.push(section(`${own.name}: switches`, grid('Switches', ['switch', 'hosts', 'without an active cable', 'cables to switches', 'active', 'state'],
      m.switches.map((s, i) => [place(s.name, s.id), num(s.hosts), num(s.lost || 0), num(to.get(G + i)?.n || 0), num(to.get(G + i)?.up || 0), s.state || 'ok']))));
  }
  parts.push(section('Groups', grid('Groups', ['group', 'switches', 'hosts', 'without an active cable', 'cables inside', 'cables to others', 'problems', 'links out of use'], m.groups.map((g, i) => {
    const out = m.bundles.filter(b => b.a === i && b.b < G || b.b === i && b.a < G).reduce((a, b) => a + b.n, 0);
    return [link(with_({ unit: g.id }), g.name), num(g.switches), num(g.hosts), num(g.hosts_lost), num(g.cables), m.switches.length ? '' : num(out), num(g.problems), num(g.out_of_use || 0)];
  }))));
  return parts;
}

function note(m) {
  const sum = k => m.groups.reduce((a, g) => a + g[k], 0);
  const kind = { tree: 'a tree', groups: 'groups', grid: m.shape, parts: 'no regular structure' }[m.kind];
  const out = m.problems.filter(outOfUse).length;
  let text = `${count(sum('switches'), 'switch')}, ${count(sum('hosts'), 'host')}, ${count(m.groups.length, 'group')}: ${kind}; ${count(m.problems.length - out + (m.more_problems || 0), 'problem')}`;
  if (out) text += `, ${count(out, 'link')} out of use`;
  if (m.more_problems) text += `, ${num(m.more_problems)} of them not drawn`;
  if (m.unplaced) text += `; ${num(m.unplaced)} nodes without a switch are not drawn`;
  if (m.at) text += `; as of ${new Date(m.time).toLocaleString('en-GB')}`;
  return text;
}

export async function show(main, params, ctx) {
  main.replaceChildren(html(page));
  $('mapKey').textContent = legend();
  let q = params.query, drawn = '', unit = null;
  const address = () => (q.get('at') ? `&at=${q.get('at')}` : '') + (q.get('since') ? `&since=${q.get('since')}` : '');
  const c = stage(main, ctx, address);
  const form = html(`<form id="pathForm"><label>From <input name="from" required maxlength="64" size="14" autocomplete="off"></label> <label>to <input name="to" required maxlength="64" size="14" autocomplete="off"></label> <button>Show path</button></form>`);
  $('mapTools').append(button('Whole map', () => { c.whole(); ctx.go(with_({ unit: '' })); }), button('Zoom in', () => c.zoom(1.4)), button('Zoom out', () => c.zoom(1 / 1.4)), form);
  $('pathForm').addEventListener('submit', e => {
    e.preventDefault();
    const f = new FormData(e.target);
    ctx.go(`#/path?from=${encodeURIComponent(f.get('from'))}&to=${encodeURIComponent(f.get('to'))}`);
  });
  const times = await timeline($('timeline'), ctx, () => q, with_);

  // update draws what the address says, if that or the subnet is another one.
  async function update(generation) {
    const done = q.get('at') ? [] : await ctx.get('v1/ports/actions');
    const want = q.get('unit') || '', what = `${address()} ${q.get('at') ? '' : generation} ${want} ${JSON.stringify(done)}`;
    if (what === drawn) return;
    drawn = what;
    const m = await base(ctx, address());
    const own = want ? await ctx.get(`v1/map?level=2&unit=${want}${address()}`) : null;
    c.set(m);
    const id = own?.unit || '';
    if (id !== unit) c.choose(id);
    unit = id;
    $('mapNote').textContent = note(m);
    $('twin').replaceChildren(...twin(own || m, id));
  }
  const again = ctx.every(2000, async s => {
    try { await update(s.generation); } catch (e) { drawn = ''; throw e; }
    await times.refresh();
  });
  return {
    query(p) { q = p.query; times.moved(); again(); },
    close: () => c.close(),
  };
}
