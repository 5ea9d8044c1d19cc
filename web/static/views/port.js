// A port: its state, the cable's other end, its counters as they go, findings and events.

import { portState } from '../columns.js';
import { actionText, linkButtons, outOf } from '../links.js';
import { clock, css, element, facts, grid, link, num, percent, place, rate, section, within } from '../dom.js';
import { related } from './node.js';

// plot is uPlot, which is loaded with the first port.
let plot = null;
function library() {
  return plot ??= new Promise((done, fail) => {
    const sheet = Object.assign(document.createElement('link'), { rel: 'stylesheet', href: 'uplot/uPlot.min.css' });
    const s = Object.assign(document.createElement('script'), { src: 'uplot/uPlot.iife.min.js' });
    s.onload = () => done(globalThis.uPlot);
    s.onerror = () => { plot = null; fail(new Error('the plot could not be loaded')); };
    document.head.append(sheet, s);
  });
}

// lines are what is drawn: apart by their dashes too.
const lines = [
  { title: 'sent', key: 'xmit', color: '--link', dash: [], look: 'solid' },
  { title: 'received', key: 'rcv', color: '--goodtext', dash: [8, 4], look: 'dashed' },
  { title: 'waits', key: 'wait', color: '--warntext', dash: [2, 3], look: 'dotted' },
];

// show is the view.
export async function show(main, at, ctx) {
  const [guid, number] = at.path, path = `v1/ports/${encodeURIComponent(guid)}/${encodeURIComponent(number)}`;
  let d = await ctx.get(path);
  const title = `${d.description || d.guid} port ${d.port}`;
  document.title = `${title} – Heddle`;
  const what = element('div', ''), note = element('p', 'soft'), picture = element('div', 'plot'), counters = element('div', '');
  picture.setAttribute('role', 'img');
  const more = related(ctx, d.guid, d.port);
  const ports = element('p', '', link(`#/node/${d.guid}`, `all of ${d.description || d.guid}`));
  const said = element('p', 'said'), buttons = element('p', 'buttons'), state = element('p', ''), role = element('p', 'soft');
  const tell = (text, kind) => {
    said.textContent = text;
    said.className = `said ${kind}`;
    ctx.say(text);
  };
  const acts = section('The link in routing', state, buttons, role, said);
  acts.hidden = true;
  main.append(section(title, what, ports), acts, section('Counters', note, picture, counters), ...more.parts);
  const draw = () => what.replaceChildren(facts([
    ['state', portState(d.state)], ['physical', d.physical], ['other end', d.peer ? place(d.peer) : 'no cable, or nothing answers'],
    ['width', d.width ? `${d.width} of ${d.width_supported}` : d.width_supported], ['speed', d.speed], ['rate', d.rate], ['MTU', d.mtu ? `${num(d.mtu)} bytes` : ''], ['data lanes', d.vls || ''],
    ['LID', d.lid ? `${d.lid}${d.lmc ? ` to ${d.lid + (1 << d.lmc) - 1}` : ''}` : '–'], ['port GUID', d.port_guid], ['GID', d.gid],
    ['P_Keys', d.pkeys.join(', ')], ['alias GUIDs', d.alias_guids.join(', ')], ['virtual ports', d.virtual_ports || ''],
  ]));
  draw();

  // The section of actions, for links between switches.
  let drawn = '';
  const actions = async () => {
    const done = outOf(await ctx.get('v1/ports/actions'), d.guid, d.port);
    acts.hidden = !d.inner && !done;
    if (acts.hidden) return;
    const now = JSON.stringify([done, ctx.role]);
    if (now === drawn) return;
    drawn = now;
    state.textContent = done ? actionText(done) : 'Routes may lead over this link.';
    const all = linkButtons(ctx, done, d.guid, d.port, '', tell);
    for (const b of all) b.disabled = !ctx.may('operator');
    role.textContent = ctx.may('operator') ? 'role operator' : `needs the role operator; you have ${ctx.role}: sign in`;
    within(buttons, () => buttons.replaceChildren(...all));
  };

  let chart = null, round = 0, history = [];
  const data = () => {
    const now = Date.now() / 1000;
    return [history.map(h => now - h.age_seconds), ...lines.map(l => history.map(h => 100 * h[l.key]))];
  };
  const chartOf = async () => {
    const U = await library();
    if (ctx.signal.aborted) return;
    chart?.destroy();
    const axis = { stroke: css('--soft'), grid: { stroke: css('--line') }, ticks: { stroke: css('--line') } };
    chart = new U({
      width: Math.max(240, picture.clientWidth), height: 220,
      scales: { y: { range: (u, lo, hi) => [0, Math.max(hi, 1e-3)] } },
      series: [{}, ...lines.map(l => ({ label: `${l.title} (${l.look})`, stroke: css(l.color), dash: l.dash, width: 2, points: { show: false } }))],
      legend: { live: false },
      axes: [{ ...axis, values: (u, v) => v.map(x => clock(1000 * x)) }, { ...axis, size: 72, values: (u, v) => v.map(x => `${+x.toPrecision(3)} %`) }],
      cursor: { show: false },
    }, data(), picture);
  };
  const again = () => { if (chart) chartOf(); };
  addEventListener('resize', again);
  addEventListener('theme', again);

  let shown = d.generation, counted = false;
  ctx.every(2000, async s => {
    if (s.generation !== shown) {
      d = await ctx.get(path);
      shown = d.generation;
      draw();
    }
    await actions();
    await more.refresh();
    if (!counted) {
      const w = await ctx.get('v1/worst?limit=1');
      counted = Boolean(w.round);
      if (!counted) {
        note.textContent = w.note || '';
        return;
      }
    }
    const c = await ctx.get(`${path}/counters`);
    if (c.round === round) return;
    round = c.round;
    history = c.history;
    const text = `sent ${percent(c.xmit)}, received ${percent(c.rcv)}, waits ${percent(c.wait)} of the time; ${rate(c.xmit_packets_per_second)} packets sent, ${rate(c.rcv_packets_per_second)} received; round ${num(c.round)}`;
    note.textContent = text;
    picture.setAttribute('aria-label', `Use of the port over the last ${history.length} rounds: ${text}`);
    if (chart && history.length > 1) chart.setData(data());
    else if (history.length > 1) await chartOf();
    const rows = Object.entries(c.counters).map(([n, v]) => [n, num(v.total), v.rate ? rate(v.rate) : '']);
    for (const [n, v] of Object.entries(c.details)) rows.push([n, num(v), '']);
    counters.replaceChildren(grid('Counters of the port', ['counter', 'total', 'now'], rows));
  });
  return { close() { removeEventListener('resize', again); removeEventListener('theme', again); chart?.destroy(); } };
}
