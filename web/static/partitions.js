// Changes of partitions: what they would do, in words and numbers of the manager's plan, and the buttons.

import { list, perform } from './dialog.js';
import { button, count, element, facts, grid, num } from './dom.js';

export const memberships = ['limited', 'full', 'both'];

// needed says which role changes need.
export const needed = ctx => `To change partitions needs the role admin; you have ${ctx.role}. Sign in with a token that has it.`;

// some are the first names of a list, and how many more there are.
function some(names, all) {
  const more = all - (names || []).length;
  return `${(names || []).join(', ')}${more > 0 ? ` and ${num(more)} more` : ''}`;
}

const groupWords = {
  new: 'begins', gone: 'ends', stays: 'is no longer permanent, and ends with its last member', members: 'stays', permanent: 'becomes permanent', values: 'gets other values',
};

// tables is what is written into tables of ports.
const tables = t => t.tables ? `${count(t.blocks, 'block')} in ${count(t.tables, 'table')}` : 'none';

// plan shows what a change of partitions would do.
export function plan(p) {
  const out = [facts([
    ['ports that get other P_Keys', num(p.ports)], ['P_Key blocks to write at them', tables(p.tables)], ['at switch ports', tables(p.switch_tables)],
    ['requests to write them', num(p.tables.writes + p.switch_tables.writes)], ['switches with changes', p.switches ? `${num(p.switches)}: ${some(p.switch_names, p.switches)}` : '0'],
    ['switch ports that begin to enforce', p.enforce_on ? num(p.enforce_on) : ''], ['switch ports that end to enforce', p.enforce_off ? num(p.enforce_off) : ''],
    ['interfaces of virtual machines', p.interfaces ? `${num(p.interfaces)}: ${some(p.interface_names, p.interfaces)}` : ''],
  ])];
  const rows = [
    ...p.memberships.map(m => [count(m.ports, 'port'), `${m.partition} ${m.pkey}`, `${m.from}, then ${m.to}`, some(m.first, m.ports)]),
    ...p.partitions.filter(x => x.pending_guids).map(x => ['not on the fabric', `${x.name} ${x.pkey}`, x.pending_begin ? 'waits for its port' : 'ends', some(x.pending_guids, (x.pending_begin || 0) + (x.pending_end || 0))]),
    ...p.groups.map(g => ['group', `${g.pkey}`, groupWords[g.what] + (g.members_end ? `, ${count(g.members_end, 'membership')} end${g.members_end === 1 ? 's' : ''}` : ''), g.mgid]),
  ];
  if (rows.length) out.push(grid('What changes', ['what', 'partition', 'change', 'which'], rows));
  const more = (p.more_memberships || 0) + (p.more_groups || 0) + (p.more_partitions || 0);
  out.push(list(
    more ? `${num(more)} more rows are left out.` : '',
    ...p.partitions.filter(x => x.what !== 'changed').map(x => ({ new: `${x.name} begins.`, gone: `${x.name} ends.`, renamed: `${x.was} ends, and ${x.name} gets its P_Key.` }[x.what])),
    p.waiting ? `${p.waiting.join(', ')}: no new member receives it before every old one has lost it.` : '',
    p.overflow.ports ? `No room for all P_Keys at ${count(p.overflow.ports, 'port')}: ${some(p.overflow.first, p.overflow.ports)}.` : '',
    p.enforce_no_room ? `${count(p.enforce_no_room, 'switch port')} cannot enforce partitions: no room for the P_Keys.` : '',
    p.tables.unread + p.switch_tables.unread ? 'Some tables are not read yet: what they need is estimated.' : '',
    ...(p.notes || []).map(n => `${n.charAt(0).toUpperCase()}${n.slice(1)}.`),
    'P_Keys are removed before others are granted. The change is stored before any port is written.'));
  return out;
}

// action is what perform does for a change. body may be a function, for what fields say then. after is
// called when it is done.
export function action(ctx, a) {
  let revision = '';
  const said = () => typeof a.body === 'function' ? a.body() : a.body, path = () => typeof a.path === 'function' ? a.path() : a.path;
  return {
    title: a.title, verb: a.verb, role: 'admin', danger: a.danger,
    async plan() {
      const p = await ctx.send(a.method, `${path()}?dry_run=true`, said());
      if (!p.change.length) throw new Error('The partitions are like that already.');
      revision = p.revision;
      return plan(p);
    },
    async run() {
      const p = await ctx.send(a.method, path(), said(), revision);
      a.after?.(p);
      return `${a.done} stored; ports are brought up to date`;
    },
  };
}

// memberPath is the path of the API for a member of a partition.
export const memberPath = (partition, member) => `v1/partitions/${encodeURIComponent(partition)}/members/${encodeURIComponent(member)}`;

// removeButton removes a line of a partition. said(text, kind) shows what came of it.
export function removeButton(ctx, partition, m, said) {
  const name = m.node ? `${m.node} port ${m.port}` : m.member;
  const b = button('Remove…', () => perform(ctx, action(ctx, {
    title: `Remove ${name}`, verb: 'Remove the member', danger: true, method: 'DELETE', path: memberPath(partition, m.member), done: 'the removal is',
  }), said), 'danger');
  b.dataset.id = `remove ${m.member}`;
  b.setAttribute('aria-label', `Remove ${name}`);
  return b;
}

// field is an input with its name.
export const field = (name, input) => element('label', '', `${name} `, input);
