// The path between two ends: drawn on the map, and switch by switch both ways, by the installed tables.

import { base, legend, stage } from './map.js';
import { $, element, grid, html, link, section } from '../dom.js';

const page = `<section id="fabric" aria-label="Path"><h2>Path <small id="mapNote" role="status"></small></h2>
  <form id="pathForm" class="buttons"><label>From <input name="from" required maxlength="64" autocomplete="off"></label> <label>to <input name="to" required maxlength="64" autocomplete="off"></label> <button>Show path</button> <span class="soft">name, GUID, LID or GID</span></form>
  <div id="chart"><canvas tabindex="0" role="application" aria-label="Map with the path. Arrow keys move it, plus and minus zoom, 0 shows all. The tables below say the same."></canvas><div id="tip" hidden></div></div>
  <p id="mapKey" class="soft"></p></section><div id="twin"></div>`;

const lane = v => v === undefined ? 'not known' : String(v);

// steps is one way as a table.
function steps(title, p) {
  const rows = [[link(`#/node/${p.from.node_guid}`, p.from.description), '', String(p.from.port), lane(p.vl)]];
  for (const h of p.hops) rows.push([link(`#/node/${h.guid}`, h.description), h.in ? String(h.in) : 'own port', h.out ? String(h.out) : 'own port', h.out ? lane(h.vl) : '']);
  if (!p.broken) rows.push([link(`#/node/${p.to.node_guid}`, p.to.description), String(p.to.port), '', '']);
  const s = section(title, grid(title, ['node', 'in by port', 'out by port', 'lane (VL)'], rows));
  const end = p.broken ? `Packets do not arrive: ${p.broken}.` : `Service level ${p.sl}, MTU ${p.mtu}, ${p.rate}, ${p.pkey ? `P_Key ${p.pkey}` : 'no common partition: the two cannot communicate'}.`;
  s.append(element('p', p.broken ? 'bad' : 'soft', end));
  return s;
}

export async function show(main, params, ctx) {
  main.replaceChildren(html(page));
  $('mapKey').textContent = `${legend()} The path is the thick line, the way back the dashed one.`;
  const q = params.query, from = q.get('from') || '', to = q.get('to') || '';
  const form = $('pathForm');
  form.elements.from.value = from;
  form.elements.to.value = to;
  form.addEventListener('submit', e => {
    e.preventDefault();
    ctx.go(`#/path?from=${encodeURIComponent(form.elements.from.value)}&to=${encodeURIComponent(form.elements.to.value)}`);
  });
  const c = stage(main, ctx, () => '');
  let drawn = -1;
  ctx.every(2000, async s => {
    if (s.generation === drawn) return;
    const first = drawn < 0;
    c.set(await base(ctx, ''));
    drawn = s.generation;
    if (!from || !to) return;
    const p = await ctx.get(`v1/path?trace=true&from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`);
    const way = x => [x.from.node_guid, ...x.hops.map(h => h.guid), ...x.broken ? [] : [x.to.node_guid]];
    const ids = [...new Set([...way(p), ...way(p.back)])];
    const places = new Map((await ctx.get(`v1/map/places?${ids.map(i => `node=${i}`).join('&')}`)).map(x => [x.guid, x]));
    const points = x => way(x).map(i => places.get(i)).filter(Boolean);
    c.ways([{ points: points(p.back), back: true, broken: p.back.broken }, { points: points(p), broken: p.broken }], first);
    const text = p.broken ? `broken: ${p.broken}` : p.back.broken ? `there, but not back: ${p.back.broken}` : `${p.hops.length} switch${p.hops.length === 1 ? '' : 'es'}; the way back ${p.differs ? 'differs' : 'is the same'}`;
    $('mapNote').textContent = text;
    $('twin').replaceChildren(steps(`${p.from.description} to ${p.to.description}`, p), steps('The way back', p.back));
  });
  return { close: () => c.close() };
}
