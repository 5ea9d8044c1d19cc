// A table: a page of it at a time, which the server finds, sorts and bounds. The address has all that it
// shows: #/nodes?q=leaf&sort=lid&desc=1&offset=50&limit=50.

import { body, kinds } from '../columns.js';
import { button, element, link, num, region, within } from '../dom.js';

const sizes = [25, 50, 100, 200];

// state of the address.
function read(at, kind) {
  const q = at.query, n = (key, or) => { const v = parseInt(q.get(key), 10); return v >= 0 ? v : or; };
  const sort = q.get('sort') ?? kind.sort;
  return { q: q.get('q') || '', sort, desc: q.has('desc') ? q.get('desc') === '1' : Boolean(kind.desc) && sort === kind.sort, offset: n('offset', 0), limit: Math.min(500, n('limit', 50) || 50) };
}

// hash is the address of a state; name is that of the view, with what is before its query.
function hash(name, kind, s) {
  const q = new URLSearchParams();
  if (s.q) q.set('q', s.q);
  if (s.sort !== kind.sort) q.set('sort', s.sort);
  if (s.desc !== (Boolean(kind.desc) && s.sort === kind.sort)) q.set('desc', s.desc ? '1' : '0');
  if (s.offset) q.set('offset', s.offset);
  if (s.limit !== 50) q.set('limit', s.limit);
  const text = q.toString();
  return `#/${name}${text ? `?${text}` : ''}`;
}

// show is the view.
export function show(main, at, ctx) {
  const kind = kinds[at.name], name = kind.at?.(at.path) || at.name, source = kind.source?.(at.path) || `v1/table/${name}`;
  let state = read(at, kind);
  const to = change => hash(name, kind, { ...state, ...change });

  const words = element('input', '');
  words.type = 'search';
  words.id = 'words';
  words.maxLength = 200;
  words.setAttribute('aria-describedby', 'wordsHint');
  const label = element('label', '', 'Rows with');
  label.htmlFor = 'words';
  const hint = element('span', 'soft', kind.words);
  hint.id = 'wordsHint';
  const size = element('select', '', ...sizes.map(n => {
    const o = element('option', '', `${n} rows`);
    o.value = n;
    return o;
  }));
  size.setAttribute('aria-label', 'Rows of a page');
  const filter = element('form', 'filter', label, words, size, hint);
  filter.setAttribute('role', 'search');
  filter.setAttribute('aria-label', `Filter of ${kind.title.toLowerCase()}`);

  const table = element('table', 'big', element('caption', 'unseen', kind.title), element('thead', ''), element('tbody', ''));
  const count = element('p', 'count');
  const pager = element('div', 'pager');
  pager.setAttribute('role', 'group');
  pager.setAttribute('aria-label', 'Pages');
  const said = element('p', 'said'), note = element('p', 'soft');
  const tell = (text, how) => {
    said.textContent = text;
    said.className = `said ${how}`;
    ctx.say(text);
  };
  main.append(element('section', '', element('h2', '', kind.title, ' ', element('small', '')), filter, said, region(kind.title, table), element('div', 'foot', count, pager), note));

  const ask = ctx.every(2000, refresh);
  let typed = 0;
  words.addEventListener('input', () => {
    clearTimeout(typed);
    typed = setTimeout(() => ctx.go(to({ q: words.value.trim(), offset: 0 }), true), 200);
  });
  filter.addEventListener('submit', e => { e.preventDefault(); clearTimeout(typed); ctx.go(to({ q: words.value.trim(), offset: 0 }), true); });
  size.addEventListener('change', () => ctx.go(to({ limit: Number(size.value), offset: 0 }), true));

  function heads() {
    table.tHead.replaceChildren(element('tr', '', ...kind.columns.map(c => {
      const on = c.sort && c.sort === state.sort;
      const b = c.sort ? button(c.title, () => ctx.go(to({ sort: c.sort, desc: on ? !state.desc : false, offset: 0 }), true), 'sort') : c.title;
      const th = element('th', c.n ? 'n' : '', b);
      th.scope = 'col';
      if (c.sort) b.dataset.id = c.sort;
      if (on) {
        th.setAttribute('aria-sort', state.desc ? 'descending' : 'ascending');
        const arrow = element('span', '', state.desc ? ' ▼' : ' ▲');
        arrow.setAttribute('aria-hidden', 'true');
        b.append(arrow);
      }
      return th;
    })));
  }

  let asked = '', spoken = '', shown = '';
  async function refresh() {
    const mine = hash(name, kind, state);
    const t = await ctx.get(`${source}?${new URLSearchParams({ q: state.q, sort: state.sort, desc: state.desc, offset: state.offset, limit: state.limit })}`);
    const more = kind.more ? await kind.more(ctx) : null;
    if (mine !== hash(name, kind, state)) return ask(); // it was changed while the server answered
    const now = JSON.stringify([t.rows, more, ctx.role]);
    if (now !== shown || mine !== asked) within(table.tBodies[0], () => table.tBodies[0].replaceChildren(...body(kind, t.rows, { ctx, more, said: tell, path: at.path })));
    shown = now;
    asked = mine;
    const below = kind.note?.(ctx) || '';
    if (note.dataset.of !== ctx.role) note.replaceChildren(below);
    note.dataset.of = ctx.role;
    if (!t.rows.length) {
      const td = element('td', 'soft', t.matched ? 'There is no such page.' : state.q ? 'No row has these words.' : 'There are none.');
      td.colSpan = kind.columns.length;
      table.tBodies[0].replaceChildren(element('tr', '', td));
    }
    const last = state.offset + t.rows.length;
    const of = t.matched === t.total ? num(t.total) : `${num(t.matched)}, of ${num(t.total)} in all`;
    const text = t.rows.length ? `Rows ${num(state.offset + 1)} to ${num(last)} of ${of}` : `No rows of ${num(t.total)}`;
    if (count.textContent !== text) count.textContent = text;
    if (spoken !== mine) {
      if (spoken) ctx.say(text);
      spoken = mine;
    }
    pages(t.matched);
  }

  function pages(matched) {
    const end = Math.max(0, Math.floor((matched - 1) / state.limit) * state.limit);
    const page = (text, offset, on) => {
      if (on) return link(to({ offset }), text);
      const s = element('a', 'off', text); // a link without a target: readers say that it is off
      s.setAttribute('aria-disabled', 'true');
      s.setAttribute('role', 'link');
      return s;
    };
    const from = state.offset;
    within(pager, () => pager.replaceChildren(page('First', 0, from > 0), page('Previous', Math.max(0, from - state.limit), from > 0),
      page('Next', from + state.limit, from + state.limit < matched), page('Last', end, from < end)));
  }

  function apply() {
    if (document.activeElement !== words) words.value = state.q;
    if (![...size.options].some(o => Number(o.value) === state.limit)) size.append(new Option(`${state.limit} rows`, state.limit));
    size.value = state.limit;
    within(table.tHead, heads);
  }
  apply();
  return {
    query(next) {
      state = read(next, kind);
      apply();
      ask();
    },
    close() { clearTimeout(typed); },
  };
}
