// Hot spots and the worst ports, by the last round of counters.

import { entries, hotBody, hotSummary } from '../lists.js';
import { $, element, html, num, percent, place, rate, region, within } from '../dom.js';

const rows = 8; // of a table, and of the list of hot spots

const page = `<section id="hotspots" aria-label="Hot spots" hidden>
  <h2>Hot spots <small id="hotNote"></small></h2>
  <ul id="hotList" class="list"></ul>
</section>
<section id="ports" aria-label="Worst ports">
  <h2>Worst ports <small id="portsNote"></small></h2>
  <div id="tables" hidden></div>
</section>`;

function hotspots(h) {
  $('hotspots').hidden = !h.open_count;
  const text = `${num(h.open_count)}${h.open_count > h.open.length ? `, the newest ${num(h.open.length)}` : ''}; --dftree ${h.dftree}${h.missed ? `; the fabric as a whole is full: ${num(h.missed)} more` : ''}`;
  if ($('hotNote').textContent !== text) $('hotNote').textContent = text;
  entries($('hotList'), 'hot spot', h.open.slice().reverse(), hotSummary, hotBody);
}

// share is a cell with a bar behind its number.
function share(x) {
  const bar = element('i', '');
  bar.style.width = `${Math.min(100, 100 * x)}%`;
  return element('td', 'share', element('span', '', percent(x)), bar);
}

const cell = (text, kind) => element('td', kind || 'n', text);

// errors are counters, those that grow first and with their rates.
function errors(p) {
  const names = Object.keys(p.errors || {}), grow = p.errors_per_second || {};
  names.sort((a, b) => (grow[b] || 0) - (grow[a] || 0) || p.errors[b] - p.errors[a]);
  const td = element('td', '');
  names.slice(0, 3).forEach((n, i) => {
    if (i) td.append(', ');
    td.append(`${n} ${num(p.errors[n])}`);
    if (grow[n]) td.append(' ', element('b', '', `(${rate(grow[n])})`));
  });
  if (names.length > 3) td.append(` and ${names.length - 3} more`);
  return td;
}

const tables = {
  use: { title: 'Busiest', head: ['sent', 'received'], none: 'no port carries packets', cells: p => [share(p.xmit), share(p.rcv)] },
  wait: { title: 'Waiting to send', head: ['of the time', 'sent'], none: 'no port waits', cells: p => [share(p.wait), share(p.xmit)] },
  discards: {
    title: 'Discarding packets', head: ['now', 'in all'], none: 'no port discards packets',
    cells: p => [cell(rate((p.errors_per_second || {}).PortXmitDiscards || 0)), cell(num((p.errors || {}).PortXmitDiscards || 0))],
  },
  errors: { title: 'Errors', head: ['counters'], none: 'no port has errors', cells: p => [errors(p)] },
};

const oddities = { stuck: 'a counter is at its end', silent: 'its agent is silent' };

const column = (text, kind) => {
  const th = element('th', kind, text);
  th.scope = 'col';
  return th;
};

function ports(w) {
  const note = w.round ? `round ${num(w.round)}, every ${+w.period_seconds.toPrecision(3)} s; ${num(w.ports_polled)} ports` +
    (w.agents_silent ? `; ${num(w.agents_silent)} of ${num(w.agents)} agents are silent` : '')
    : w.note || '';
  if (w.round && $('portsNote').textContent === note) return; // there is no newer round
  $('portsNote').textContent = note;
  $('tables').hidden = !w.round;
  within($('tables'), () => {
    for (const [by, t] of Object.entries(tables)) {
      const table = $(`by-${by}`), worst = w[by];
      const head = element('tr', '', ...['port', 'to', ...t.head].map((h, i) => column(h, i > 1 && by !== 'errors' ? 'n' : '')));
      table.tHead.replaceChildren(...(worst.length ? [head] : []));
      table.tBodies[0].replaceChildren(...worst.map(p => {
        const from = element('td', '', place(p));
        const odd = p.flags.map(f => oddities[f]).filter(Boolean).join(', ');
        if (odd) from.append(element('small', 'odd', ` ${odd}`));
        const to = p.peer ? element('td', 'to', `${p.peer.description || p.peer.guid} port ${p.peer.port}`) : element('td', 'to', '–');
        const tr = element('tr', '', from, to, ...t.cells(p));
        tr.dataset.key = by;
        return tr;
      }));
      if (!worst.length) table.tBodies[0].append(element('tr', '', element('td', 'soft', t.none)));
    }
  });
}

// show is the view.
export function show(main, params, ctx) {
  main.replaceChildren(html(page));
  $('tables').append(...Object.entries(tables).map(([by, t]) => {
    const table = element('table', '', element('caption', '', t.title), element('thead', ''), element('tbody', ''));
    table.id = `by-${by}`;
    return region(t.title, table);
  }));
  ctx.every(2000, async () => {
    const [h, w] = await Promise.all([ctx.get(`v1/hotspots?limit=${rows}`), ctx.get(`v1/worst?limit=${rows}`)]);
    hotspots(h);
    ports(w);
  });
}
