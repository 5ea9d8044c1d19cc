// A node: what it is, its ports, what is wrong with it, and what happened to it.

import { body, heads, kinds, nodeState } from '../columns.js';
import { element, facts, link, num, region, section, within } from '../dom.js';

// about reports whether an event is about a port.
function about(e, guid, port) {
  const a = e.attrs || {}, same = (g, p) => g === guid && Number(p) === port;
  return same(a.node_guid, a.port) || same(a.peer_node_guid, a.peer_port) ||
    (e.links || []).some(l => same(l.node_guid, l.port) || same(l.peer_node_guid, l.peer_port));
}

// related are tables of the findings and events of a node or port.
export function related(ctx, guid, port) {
  const make = (name, title) => {
    const kind = kinds[name];
    const table = element('table', 'big', element('caption', 'unseen', title), element('thead', '', heads(kind)), element('tbody', ''));
    const all = link(`#/${name}?q=${encodeURIComponent(guid)}`, 'all of the node');
    return { kind, table, part: section(title, region(`${title}, a table`, table), element('p', 'soft', all)) };
  };
  const f = make('findings', 'Its findings'), e = make('events', 'Its events');
  const fill = (t, rows) => within(t.table, () => {
    const none = element('td', 'soft', 'none');
    none.colSpan = t.kind.columns.length;
    t.table.tBodies[0].replaceChildren(...(rows.length ? body(t.kind, rows) : [element('tr', '', none)]));
  });
  return {
    parts: [f.part, e.part],
    async refresh() {
      const words = port ? `${guid}/${port}` : guid;
      const [fs, es] = await Promise.all([ctx.get(`v1/table/findings?${new URLSearchParams({ q: words, limit: 10 })}`),
        ctx.get(`v1/events?${new URLSearchParams({ node: guid, limit: port ? 200 : 10 })}`)]);
      fill(f, port ? fs.rows.filter(x => x.ends.some(y => y.guid === guid && y.port === port)) : fs.rows);
      fill(e, (port ? es.filter(x => about(x, guid, port)) : es).slice(-10).reverse());
    },
  };
}

// show is the view.
export async function show(main, at, ctx) {
  const guid = at.path[0];
  const d = await ctx.get(`v1/nodes/${encodeURIComponent(guid)}`);
  document.title = `${d.description || d.guid} – Heddle`;
  const what = element('div', ''), problems = element('ul', 'plain');
  const kind = { ...kinds.ports, columns: kinds.ports.columns.map((c, i) => i ? c : { ...c, cell: p => link(`#/port/${p.guid}/${p.port}`, `port ${p.port}`) }) };
  const table = element('table', 'big', element('caption', 'unseen', 'Ports'), element('thead', '', heads(kind)), element('tbody', ''));
  const more = related(ctx, d.guid, 0);
  main.append(section(`${d.description || d.guid}`, what, problems), section('Ports', region('Its ports, a table', table)), ...more.parts);
  const draw = n => {
    what.replaceChildren(facts([
      ['type', n.type], ['state', nodeState(n.state)], ['LID', n.lid ? `${n.lid}${n.lmc ? ` to ${n.lid + (1 << n.lmc) - 1}` : ''}` : '–'], ['ports', num(n.ports)],
      ['GUID', n.guid], ['system', n.system_guid], ['vendor', n.vendor], ['device', n.device], ['revision', n.revision],
      ['directed route', n.path], ['answers', n.unseen ? 'no: it is shown as it was last read' : 'yes'],
    ]));
    problems.replaceChildren(...n.problems.map(p => element('li', 'bad', p)));
    within(table, () => table.tBodies[0].replaceChildren(...body(kind, n.port_rows)));
  };
  draw(d);
  let shown = d.generation;
  ctx.every(2000, async s => {
    if (s.generation !== shown) {
      const n = await ctx.get(`v1/nodes/${encodeURIComponent(guid)}`);
      shown = n.generation;
      draw(n);
    }
    await more.refresh();
  });
}
