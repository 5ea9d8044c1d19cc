// Small helpers of all views: elements, numbers, times.

export const $ = id => document.getElementById(id);
export const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const num = n => n.toLocaleString('en-US');

// count is a number of things: "1 problem", "2 switches".
export const count = (n, thing) => `${num(n)} ${thing}${n === 1 ? '' : /(ch|s)$/.test(thing) ? 'es' : 's'}`;

// element makes an element with text or children; kind is its class.
export function element(tag, kind, ...content) {
  const e = document.createElement(tag);
  if (kind) e.className = kind;
  e.append(...content);
  return e;
}

// html makes elements from text of this program. Never give it data.
export function html(text) {
  const t = document.createElement('template');
  t.innerHTML = text;
  return t.content;
}

// link is a link to a view, or to another address.
export function link(href, ...content) {
  const a = element('a', '', ...content);
  a.href = href;
  return a;
}

// button is a button that calls fn.
export function button(text, fn, kind) {
  const b = element('button', kind || '', text);
  b.type = 'button';
  b.addEventListener('click', fn);
  return b;
}

// percent has enough digits for a gentle load.
export const percent = x => `${x * 100 < 1 ? +(100 * x).toPrecision(2) : (100 * x).toFixed(1)} %`;
export const rate = x => `${x < 1000 ? +x.toPrecision(2) : num(Math.round(x))}/s`;
export const seconds = t => t < 1 ? `${(t * 1000).toFixed(t < 0.01 ? 1 : 0)} ms` : `${t.toFixed(2)} s`;
export const clock = time => new Date(time).toLocaleTimeString('en-GB');
export const date = time => new Date(time).toLocaleString('en-GB');

// bits prints a rate in Gb/s: "97 kb/s".
export function bits(gbps) {
  const units = [['Gb/s', 1], ['Mb/s', 1e-3], ['kb/s', 1e-6], ['b/s', 1e-9]];
  const [unit, k] = units.find(u => gbps >= u[1]) || units[3];
  return `${+(gbps / k).toPrecision(3)} ${unit}`;
}

// ago is a time as people say it: "5 min".
export function ago(time) {
  const s = Math.max(0, (Date.now() - new Date(time)) / 1000);
  for (const [unit, k] of [['d', 86400], ['h', 3600], ['min', 60]]) if (s >= 2 * k) return `${Math.floor(s / k)} ${unit}`;
  return `${Math.floor(s)} s`;
}

// place is a node or a port, with a link to its view. e has guid, description and perhaps port.
export function place(e) {
  const name = e.description || e.guid;
  const a = e.port ? link(`#/port/${e.guid}/${e.port}`, `${name} port ${e.port}`) : link(`#/node/${e.guid}`, name);
  a.title = e.guid;
  return a;
}

// show replaces an element's contents if they change: a reader of the screen says what changed.
export function show(el, ...parts) {
  if (el.textContent !== parts.map(p => p.textContent ?? p).join('')) el.replaceChildren(...parts);
}

// within keeps the keyboard's place while replace changes what is below root: what had the focus has it again
// if it is still there, or in the place of a button another one of its row. Elements are told apart by their
// rows, their targets and their texts.
export function within(root, replace) {
  const at = root.contains(document.activeElement) ? document.activeElement : null;
  const row = e => e.closest('[data-key]')?.dataset.key;
  const id = e => `${row(e)} ${e.tagName} ${e.getAttribute('href')} ${e.tagName === 'BUTTON' ? e.dataset.id ?? e.textContent : ''}`;
  const was = at && id(at), line = at?.tagName === 'BUTTON' && row(at);
  replace();
  if (!at || root.contains(document.activeElement)) return;
  const all = [...root.querySelectorAll('a, summary, button')];
  (all.find(e => id(e) === was) || line !== false && all.find(e => e.tagName === 'BUTTON' && row(e) === line))?.focus({ preventScroll: true });
}

// region makes what is wider than the page scroll by itself, with the keyboard too.
export function region(label, ...content) {
  const d = element('div', 'wide', ...content);
  d.tabIndex = 0;
  d.setAttribute('role', 'region');
  d.setAttribute('aria-label', label);
  return d;
}

// grid is a small table of rows of cells; its label is what it is a table of.
export function grid(label, head, rows) {
  const body = rows.map(r => element('tr', '', ...r.map(c => element('td', '', c))));
  return region(`${label}, a table`, element('table', '', element('thead', '', element('tr', '', ...head.map(heading))), element('tbody', '', ...body)));
}

// heading is the head of a column. An empty one is no heading.
export function heading(text) {
  if (!text) return element('td', '');
  const th = element('th', '', text);
  th.scope = 'col';
  return th;
}

// facts is a list of names and values; values of null are left out.
export function facts(pairs) {
  const dl = element('dl', 'facts');
  for (const [name, value] of pairs) if (value !== null && value !== undefined && value !== '') dl.append(element('div', '', element('dt', '', name), element('dd', '', value)));
  return dl;
}

// section is a part of a view with a heading.
export function section(title, ...content) {
  const s = element('section', '', element('h2', '', title), ...content);
  s.setAttribute('aria-label', title);
  return s;
}
