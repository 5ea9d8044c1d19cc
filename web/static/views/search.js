// What a search found. A single hit is shown at once.

import { element, grid, link, section } from '../dom.js';

const targets = {
  node: h => `#/node/${h.guid}`,
  port: h => `#/port/${h.guid}/${h.port}`,
  vm: h => `#/vms?q=${encodeURIComponent(h.name)}`,
  group: h => `#/groups?q=${encodeURIComponent(h.name)}`,
  partition: h => `#/partitions?q=${encodeURIComponent(h.name)}`,
};
const names = { node: 'node', port: 'port', vm: 'virtual machine', group: 'group', partition: 'partition' };

// show is the view.
export async function show(main, at, ctx) {
  const q = at.query.get('q') || '';
  const found = await ctx.get(`v1/search?${new URLSearchParams({ q })}`);
  const exact = found.hits.filter(h => h.by !== 'part of the name');
  const one = found.hits.length === 1 ? found.hits[0] : exact.length === 1 ? exact[0] : null;
  if (one) {
    ctx.say(`${names[one.kind]} ${one.name}`);
    ctx.go(targets[one.kind](one), true);
    return;
  }
  const rows = found.hits.map(h => [link(targets[h.kind](h), h.port ? `${h.name} port ${h.port}` : h.name), names[h.kind], h.by, h.lid || '', h.guid ? element('code', '', h.guid) : '']);
  const text = rows.length ? `${rows.length}${found.more ? ' or more' : ''} found for “${q}”` : `Nothing is called “${q}”, and no LID, GUID or GID is this.`;
  ctx.say(text);
  main.append(section('Search', element('p', '', text), ...(rows.length ? [grid('What was found', ['Name', 'Kind', 'Found by', 'LID', 'GUID'], rows)] : [])));
}
