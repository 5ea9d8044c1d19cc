// The tables: their columns, and how rows are shown.

import { actionMark, linkButtons, outOf } from './links.js';
import { needed, removeButton } from './partitions.js';
import { ago, date, element, link, num, place } from './dom.js';

// mark is a state with a shape beside its color: ● good, ▲ not yet, ✕ bad.
export function mark(text, kind) {
  const sign = element('span', '', { good: '●', warn: '▲', bad: '✕' }[kind]);
  sign.setAttribute('aria-hidden', 'true');
  return element('span', `mark ${kind}`, sign, ` ${text}`);
}

export const portState = s => mark(s, s === 'Active' ? 'good' : s === 'Down' || s === 'held down' ? 'bad' : 'warn');
export const linkState = s => mark(s, s === 'active' ? 'good' : s === 'not active' ? 'warn' : 'bad');
export const nodeState = s => mark(s, s === 'ok' ? 'good' : 'bad');
const code = text => element('code', '', text);
const when = t => {
  const e = element('time', '', date(t));
  e.dateTime = t;
  return e;
};
const search = (kind, q, text) => link(`#/${kind}?q=${encodeURIComponent(q)}`, text);

// A partition is named by its P_Key without the bit of full membership, and its groups have the one with it.
const key = k => `0x${k.toString(16).padStart(4, '0')}`;
const partitionOf = pkey => link(`#/partition/${key(pkey & 0x7fff)}`, pkey);
const groupsOf = p => search('groups', key(p.pkey | 0x8000), num(p.groups.length));

// causeOf is a link to the events with a cause.
export const causeOf = n => search('events', `cause:${n};`, `event ${n}`);

// place of an event: the node or port that its attributes name.
function eventPlace(e) {
  const a = e.attrs || {};
  if (!a.node_guid) return a.node || '';
  return place({ guid: a.node_guid, description: a.node, port: a.port });
}

// cableState is the state of a cable, and what was done to it.
function cableState(l, x) {
  const done = x && outOf(x.more, l.a.guid, l.a.port), e = element('span', '', linkState(l.state));
  if (done) e.append(' ', actionMark(done));
  return e;
}

// cableActions are the buttons of a cable between switches.
function cableActions(l, x) {
  const done = x && outOf(x.more, l.a.guid, l.a.port);
  if (!l.inner && !done) return 'to a host';
  if (!x?.ctx.may('operator')) return '';
  const name = `${l.a.description || l.a.guid} port ${l.a.port}`;
  return element('span', 'acts', ...linkButtons(x.ctx, done, l.a.guid, l.a.port, name, x.said));
}

// Column: title, sort (the server's name of the order; none: not to be sorted by), n (a number, to the
// right), cell (of a row, and of what body got beside the rows). more gets, for a table, what its cells
// need, and note a line below it. at is the view of a table that is part of one, and source its path in the API.
export const kinds = {
  nodes: {
    title: 'Nodes', sort: 'name', words: 'name, GUID, LID, type, state',
    columns: [
      { title: 'Name', sort: 'name', cell: n => place({ guid: n.guid, description: n.description }) },
      { title: 'Type', sort: 'type', cell: n => n.type },
      { title: 'LID', sort: 'lid', n: true, cell: n => n.lid || '–' },
      { title: 'Ports', sort: 'ports', n: true, cell: n => num(n.ports) },
      { title: 'State', sort: 'state', cell: n => nodeState(n.state) },
      { title: 'GUID', sort: 'guid', cell: n => code(n.guid) },
    ],
  },
  ports: {
    title: 'Ports', sort: 'name', words: 'name, port number, GUID, LID, state, other end',
    columns: [
      { title: 'Port', sort: 'name', cell: p => link(`#/port/${p.guid}/${p.port}`, `${p.description || p.guid} port ${p.port}`) },
      { title: 'State', sort: 'state', cell: p => portState(p.state) },
      { title: 'Physical', cell: p => p.physical },
      { title: 'Width', sort: 'width', cell: p => p.width || '–' },
      { title: 'Speed', sort: 'speed', cell: p => p.speed || '–' },
      { title: 'MTU', n: true, cell: p => p.mtu ? num(p.mtu) : '–' },
      { title: 'LID', sort: 'lid', n: true, cell: p => p.lid || '–' },
      { title: 'Other end', sort: 'peer', cell: p => p.peer ? place(p.peer) : '–' },
    ],
  },
  cables: {
    title: 'Cables', sort: 'name', words: 'name, port number, GUID, state, speed, “between switches”',
    columns: [
      { title: 'One end', sort: 'name', cell: l => place(l.a) },
      { title: 'Other end', sort: 'peer', cell: l => place(l.b) },
      { title: 'State', sort: 'state', cell: (l, x) => cableState(l, x) },
      { title: 'Width', sort: 'width', cell: l => l.width },
      { title: 'Speed', sort: 'speed', cell: l => l.speed },
      { title: 'MTU', n: true, cell: l => num(l.mtu) },
      { title: 'Lanes', n: true, cell: l => l.vls },
      { title: 'Routing', cell: (l, x) => cableActions(l, x) },
    ],
    more: ctx => ctx.get('v1/ports/actions'),
    note: ctx => ctx.may('operator') ? '' : `To drain, isolate or restore a cable needs the role operator; you have ${ctx.role}. Sign in with a token that has it.`,
  },
  groups: {
    title: 'Multicast groups', sort: 'mgid', words: 'MGID, MLID, P_Key',
    columns: [
      { title: 'MGID', sort: 'mgid', cell: g => code(g.mgid) },
      { title: 'MLID', sort: 'mlid', cell: g => g.mlid },
      { title: 'P_Key', sort: 'pkey', cell: g => partitionOf(g.pkey) },
      { title: 'Members', sort: 'members', n: true, cell: g => num(g.members) },
      { title: 'MTU', n: true, cell: g => num(g.mtu) },
      { title: 'Rate', cell: g => g.rate },
      { title: 'SL', n: true, cell: g => g.sl },
      { title: 'Kind', cell: g => g.well_known ? 'of a partition' : 'of its members' },
    ],
  },
  partitions: {
    title: 'Partitions', sort: 'name', words: 'name, P_Key',
    columns: [
      { title: 'Name', sort: 'name', cell: p => link(`#/partition/${p.pkey}`, p.name || p.pkey) },
      { title: 'P_Key', sort: 'pkey', cell: p => p.pkey },
      { title: 'Full members', sort: 'full_members', n: true, cell: p => num(p.full_members) },
      { title: 'Limited members', sort: 'limited_members', n: true, cell: p => num(p.limited_members) },
      { title: 'Groups', cell: p => (p.groups || []).length ? groupsOf(p) : '0' },
    ],
    note: ctx => {
      const e = element('span', '');
      e.append(...ctx.may('admin') ? [link('#/partition', 'Create a partition'), '. To add or remove members, or to delete a partition, open it.'] : [needed(ctx)]);
      return e;
    },
  },
  members: {
    title: 'Members', sort: '', words: 'GUID, class, name, full, limited, both, pending',
    at: path => `partition/${encodeURIComponent(path[0])}`, source: path => `v1/partitions/${encodeURIComponent(path[0])}/members`,
    columns: [
      { title: 'Member', sort: 'member', cell: m => code(m.member) },
      { title: 'Membership', sort: 'membership', cell: m => m.membership },
      { title: 'Node', sort: 'node', cell: m => m.node_guid ? place({ guid: m.node_guid, description: m.node, port: m.port }) : m.pending ? mark('not on the fabric', 'warn') : 'a class of ports' },
      { title: 'By', cell: m => m.by_interface ? m.interface ? search('vms', m.interface, `interface ${m.interface}`) : 'virtual machines' : 'the policy' },
      { title: 'Action', cell: (m, x) => x.ctx.may('admin') && !m.by_interface ? removeButton(x.ctx, x.path[0], m, x.said) : '' },
    ],
  },
  vms: {
    title: 'Virtual machines', sort: 'name', words: 'name, GUID, LID, hypervisor, P_Key, state',
    columns: [
      { title: 'Interface', sort: 'name', cell: v => v.name },
      { title: 'State', sort: 'state', cell: v => v.state },
      { title: 'Placement', sort: 'placement', cell: v => v.reason ? `${v.placement}: ${v.reason}` : v.placement },
      { title: 'Hypervisor', sort: 'hypervisor', cell: v => v.hypervisor ? link(`#/node/${v.hypervisor.port_guid}`, v.hypervisor.description || v.hypervisor.port_guid) : '–' },
      { title: 'LID', sort: 'lid', n: true, cell: v => v.lid || '–' },
      { title: 'GUID', cell: v => v.guid ? code(v.guid) : '–' },
      { title: 'P_Keys', cell: v => v.keys.map(k => k.pkey).join(', ') || '–' },
    ],
  },
  findings: {
    title: 'Findings', sort: '', words: 'severity, rule, name, GUID, open, ended',
    columns: [
      { title: 'Severity', sort: 'severity', cell: f => element('span', `pill ${f.severity}`, f.severity) },
      { title: 'Finding', sort: 'title', cell: f => f.title },
      { title: 'At', cell: f => {
        const s = element('span', '');
        f.ends.slice(0, 2).forEach((e, i) => s.append(i ? ' – ' : '', place(e)));
        const more = f.ends.length - 2 + (f.more_ends || 0);
        if (more > 0) s.append(` and ${num(more)} more`);
        return s;
      } },
      { title: 'Evidence', cell: f => f.evidence.slice(0, 2).map(e => `${e.what} ${e.delta ? `+${num(e.delta)}` : e.text || +e.value.toPrecision(3)}`).join(', ') },
      { title: 'Since', sort: 'since', cell: f => when(f.since) },
      { title: 'Cause', cell: f => f.cause ? causeOf(f.cause) : '–' },
      { title: 'State', sort: 'closed', cell: f => f.closed ? `ended ${ago(f.closed)} ago: ${f.why_closed}` : 'open' },
      { title: 'What to do', cell: f => f.action ? element('span', '', f.do, element('span', 'soft rule', f.action)) : f.do },
    ],
  },
  events: {
    title: 'Events', sort: 'time', desc: true, words: 'level, kind, name, GUID, text, cause:NUMBER;',
    columns: [
      { title: 'Time', sort: 'time', cell: e => when(e.time) },
      { title: 'Level', sort: 'level', cell: e => element('span', `level ${e.level}`, e.level) },
      { title: 'Kind', sort: 'kind', cell: e => e.kind },
      { title: 'At', cell: eventPlace },
      { title: 'Event', cell: e => e.message },
    ],
  },
};

// body makes the rows of a table; x has the ctx, what more got, and said.
export function body(kind, rows, x) {
  return rows.map((r, i) => {
    const tr = element('tr', '', ...kind.columns.map(c => element('td', c.n ? 'n' : '', c.cell(r, x))));
    tr.dataset.key = i;
    return tr;
  });
}

// heads are the heads of columns that cannot be sorted by.
export function heads(kind) {
  return element('tr', '', ...kind.columns.map(c => {
    const th = element('th', c.n ? 'n' : '', c.title);
    th.scope = 'col';
    return th;
  }));
}
