// Lists of things that can be opened: findings and hot spots. The server chooses and bounds the rows.

import { causeOf } from './columns.js';
import { ago, date, element, grid, num, percent, place, rate, within } from './dom.js';

// fact is one piece of evidence as text.
function fact(e) {
  const parts = [];
  if (e.delta) parts.push(`+${num(e.delta)}${e.per_second ? `, last ${rate(e.per_second)}` : ''}`);
  else if (!e.text) parts.push(`${+e.value.toPrecision(3)}`);
  if (e.text) parts.push(e.text);
  return `${e.what} ${parts.join(', ')}`;
}

export const severities = ['critical', 'warning', 'info'];

// findingSummary is the line of a finding.
export function findingSummary(f) {
  const where = element('span', 'where');
  f.ends.slice(0, 2).forEach((e, i) => where.append(i ? ' – ' : '', e.description || e.guid, e.port ? ` port ${e.port}` : ''));
  const more = f.ends.length - 2 + (f.more_ends || 0);
  if (more > 0) where.append(` and ${num(more)} more`);
  const t = element('time', '', `for ${ago(f.since)}`);
  t.dateTime = f.since;
  return [element('span', `pill ${f.severity}`, f.severity), element('b', '', f.title), where, t];
}

// findingBody is what a finding shows when it is opened.
export function findingBody(f) {
  const rows = f.evidence.map(e => [place(e), fact(e), e.delta ? `more than ${num(e.limit)}` : e.limit ? `${+e.limit.toPrecision(3)}` : '']);
  return [element('p', 'do', f.do), ...f.action ? [element('p', '', f.action)] : [], grid(`Evidence of finding ${f.id}`, ['at', 'evidence', 'threshold, or expected'], rows),
    element('p', 'soft', `Finding ${f.id}, rule ${f.rule}; first seen ${date(f.since)}, opened ${date(f.opened)}`,
      ...f.cause ? ['; cause: ', causeOf(f.cause)] : [])];
}

// entries shows, in list, things that can be opened. Each keeps its element, so one that is open stays
// open; its text is replaced when it changes.
const kept = new Map(); // elements by key

export function entries(list, kind, things, summary, body) {
  const keys = new Set(things.map(x => `${kind} ${x.id}`));
  for (const k of kept.keys()) if (k.startsWith(`${kind} `) && !keys.has(k)) kept.delete(k);
  within(list, () => list.replaceChildren(...things.map(x => {
    const key = `${kind} ${x.id}`;
    let li = kept.get(key);
    if (!li) {
      li = element('li', '', element('details', '', element('summary', ''), element('div', 'body')));
      li.dataset.key = key;
      kept.set(key, li);
    }
    li.querySelector('summary').replaceChildren(...summary(x));
    const now = JSON.stringify(x);
    if (li.told !== now) {
      li.told = now;
      const e = li.querySelector('.body');
      within(e, () => e.replaceChildren(...body(x)));
    }
    return li;
  })));
}

function names(list, more) {
  const text = list.slice(0, 3).map(h => h.description || h.guid).join(', '), rest = list.length + (more || 0) - 3;
  return rest > 0 ? `${text} and ${num(rest)} more` : text;
}

export function hotSummary(h) {
  const where = element('span', 'where', `fed by ${names(h.contributors, h.more_contributors) || 'hosts that are not known'}`);
  const victims = h.victims.length + (h.more_victims || 0);
  if (victims) where.append(`; ${num(victims)} host${victims === 1 ? '' : 's'} may suffer`);
  const t = element('time', '', `for ${ago(h.since)}`);
  t.dateTime = h.since;
  return [element('span', 'pill warning', h.sign), element('b', '', h.host.description || h.host.guid), where, t];
}

export function hotBody(h) {
  const row = (what, x) => [what, place(x), percent(x.wait), percent(x.use)];
  const out = [grid(`Ports of hot spot ${h.id}`, ['', 'port', 'waits', 'uses'], [row('before it', { ...h.at, wait: h.wait, use: h.use }),
    ...h.contributors.map(c => row(c.known ? 'feeds it' : 'perhaps feeds it', c)), ...h.victims.map(v => row('may suffer', v))])];
  const facts = [];
  if (h.lane >= 0) facts.push(`lane ${h.lane}`);
  if (h.slow_paths) facts.push(`${num(h.slow_paths)} path${h.slow_paths === 1 ? '' : 's'} on the slow lane, or would be`);
  if (h.refused) facts.push(h.refused);
  if (facts.length) out.push(element('p', 'soft', facts.join('; ')));
  return out;
}
