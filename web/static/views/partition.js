// A partition: its members, and how they are changed; or a new one.

import { perform } from '../dialog.js';
import { action, field, memberPath, memberships, needed } from '../partitions.js';
import { button, element, facts, link, num, section, show as replace } from '../dom.js';
import { show as table } from './table.js';

// text is an input of one line.
function text(max, holder) {
  const i = element('input', '');
  i.maxLength = max;
  i.autocomplete = 'off';
  i.spellcheck = false;
  i.placeholder = holder || '';
  return i;
}

const choice = () => element('select', '', ...memberships.map(m => new Option(m, m)));
const memberHint = 'A member is a port GUID with 0x, the name of a node (NODE:PORT if it has several), or ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS or SELF.';

// named is what a field says; without it there is nothing to do.
function named(value, what) {
  if (!value.trim()) throw new Error(`Name ${what} first.`);
  return value.trim();
}

// form is a part of the view with fields and buttons, which need the role admin.
function form(ctx, title, hint, fields, buttons) {
  const said = element('p', 'said'), role = element('p', 'soft');
  const tell = (words, kind) => {
    said.textContent = words;
    said.className = `said ${kind}`;
    ctx.say(words);
  };
  const all = buttons.map(([words, of, kind]) => button(`${words}…`, () => perform(ctx, of(), tell), kind));
  const part = section(title, element('p', 'soft', hint), ...fields.length ? [element('p', 'fields', ...fields)] : [], element('p', 'buttons', ...all), role, said);
  return {
    part,
    refresh() {
      for (const b of all) b.disabled = !ctx.may('admin');
      role.textContent = ctx.may('admin') ? 'role admin' : needed(ctx);
    },
  };
}

// fresh is the view of a partition to create.
function fresh(main, ctx) {
  const name = text(256), pkey = text(6, 'lowest free'), member = text(256), as = choice(), ipoib = element('input', '');
  ipoib.type = 'checkbox';
  const f = form(ctx, 'Create a partition', memberHint, [field('Name', name), field('P_Key', pkey), field('First member', member), field('Membership', as), field('IPoIB broadcast group', ipoib)], [['Create', () => action(ctx, {
    title: 'Create a partition', verb: 'Create the partition', method: 'POST', path: 'v1/partitions', done: 'the partition is',
    body: () => ({ name: named(name.value, 'the partition'), pkey: pkey.value.trim() || undefined, ipoib: ipoib.checked, members: [{ member: named(member.value, 'a first member'), membership: as.value }] }),
    after: p => ctx.go(`#/partition/${p.partitions.find(x => x.what === 'new')?.pkey || encodeURIComponent(name.value.trim())}`),
  })]]);
  main.append(f.part);
  ctx.every(2000, () => f.refresh());
}

// show is the view.
export async function show(main, at, ctx) {
  const [key] = at.path;
  if (!key) return fresh(main, ctx);
  const path = `v1/partitions/${encodeURIComponent(key)}`, what = element('div', '');
  const member = text(256), as = choice();
  const find = async () => (await ctx.get(`v1/table/partitions?${new URLSearchParams({ q: key, limit: 500 })}`)).rows.find(p => p.pkey === key || p.name === key);
  const p = await find(), title = p ? `Partition ${p.name} ${p.pkey}` : `Partition ${key}`;
  document.title = `${title} – Heddle`;
  const change = form(ctx, 'Change', memberHint, [field('Member', member), field('Membership', as)], [
    ['Add or change', () => action(ctx, {
      title: `Add ${member.value.trim()} to ${p?.name || key}`, verb: 'Change the member', method: 'PUT', path: () => memberPath(key, named(member.value, 'a member')),
      body: () => ({ membership: as.value }), done: 'the member is', after: () => { member.value = ''; },
    })],
    ['Delete the partition', () => action(ctx, {
      title: `Delete ${p?.name || key}`, verb: 'Delete the partition', method: 'DELETE', path, danger: true, done: 'the end of the partition is', after: () => ctx.go('#/partitions'),
    }), 'danger'],
  ]);
  main.append(section(title, what, element('p', '', link('#/partitions', 'all partitions'))), change.part);
  const rows = table(main, { ...at, name: 'members' }, ctx);
  ctx.every(2000, async () => {
    change.refresh();
    const now = await find();
    replace(what, now ? facts([['name', now.name], ['P_Key', now.pkey], ['ports with full membership', num(now.full_members)], ['with limited membership', num(now.limited_members)], ['permanent groups', (now.groups || []).join(', ')]])
      : element('p', 'soft', 'There is no such partition.'));
  });
  return { query: next => rows.query({ ...next, name: 'members' }), close: rows.close };
}
