// The overview: counts, what is wrong, the last sweep, repairs and events.

import { entries, findingBody, findingSummary, severities } from '../lists.js';
import { repairsPart, showRepairs, showSweep, sweepPart } from '../sweeps.js';
import { $, ago, clock, element, html, num, show as replace } from '../dom.js';

const shown = 12; // findings
const kept = 50; // events

const page = `<section class="counts" aria-label="Counts"><h2 class="unseen">Counts</h2><div id="counts"></div><div id="sa"></div></section>
<section id="findings" aria-label="Findings"><h2>Findings <small id="findingsCount"></small></h2>
  <ul id="findingsList" class="list"></ul><p id="findingsRest" class="soft"></p><div id="findingsEnded"></div></section>
${sweepPart}${repairsPart}
<section id="events" aria-label="Events"><h2>Events <small><a href="#/events">all</a></small></h2>
  <ol id="log" reversed tabindex="0" aria-label="Events, the newest first"></ol></section>`;

let asked = null; // time of the last poll, and the number of answered SA requests then

// perSecond is how many SA requests were answered per second since the last poll.
function perSecond(answered) {
  const now = performance.now(), last = asked;
  if (last && now - last.at < 1000) return last.rate;
  const n = last && answered >= last.answered ? (answered - last.answered) * 1000 / (now - last.at) : 0;
  asked = { at: now, answered, rate: Math.round(n) };
  return asked.rate;
}

// counts shows numbers with their names, which are plural: "1 link active".
function counts(id, rows) {
  const one = name => name.replace(/(switch)es\b|([A-Za-z_]{3,})s\b/, '$1$2');
  $(id).replaceChildren(...rows.filter(r => r[1] !== null).map(([name, n, more, bad]) => element('div', bad ? 'bad' : '',
    element('b', '', num(n)), element('span', '', `${n === 1 ? one(name) : name}${more && !more.startsWith(',') ? ' ' : ''}${more || ''}`))));
}

function numbers(s, out) {
  const p = s.partitions, waiting = out.filter(a => a.goes_on_at).length;
  counts('counts', [
    ['switches', s.switches], ['hosts', s.cas], ['routers', s.routers || null],
    ['links active', s.links_active, s.links_active < s.links ? `of ${num(s.links)}` : ''],
    ['LIDs', s.lids], ['virtual ports', s.vports || null],
    ['VM interfaces', s.vms || null, s.vms_pending ? `, ${num(s.vms_pending)} changing` : ''], ['do not answer', s.unseen || null, s.own_silent ? ', including the own agent' : '', true],
    ['switches gone', s.gone.switches || null, 'in 7 days', true], ['hosts gone', s.gone.hosts || null, 'in 7 days'],
    ['cables gone', s.gone.cables || null, 'in 7 days'],
    ['problems', s.problems, '', s.problems > 0], ['links out of use', out.length || null, waiting ? `, ${num(waiting)} waiting` : ''],
    ['sweeps', s.sweeps], ['light sweeps', s.light_sweeps],
    ['SMPs sent', s.smps_sent], ['timed out', s.smps_timed_out, 'since the start'], // no alarm: what does not answer is counted by itself
  ]);
  counts('sa', [
    ['SA answers', s.sa.answered], ['per second', perSecond(s.sa.answered)], ['answered BUSY', s.sa.busy],
    ['groups', s.sa.groups], ['group members', s.sa.group_members],
    ['services', s.sa.services], ['subscriptions', s.sa.subscriptions],
    ['partitions', p.count, p.settled ? '' : 'changing'],
    ['ports pending', p.pending_ports, '', p.pending_ports > 0],
    ['P_Keys freed', p.quarantined || null],
  ]);
}

function findings(f) {
  const by = severities.map(s => [s, f.counts[s]]).filter(c => c[1]);
  const all = by.reduce((a, c) => a + c[1], 0);
  replace($('findingsCount'), (all ? by.map(([s, n]) => `${num(n)} ${s}`).join(', ') : 'none') + (f.note ? `; none by counters: ${f.note}` : ''));
  entries($('findingsList'), 'finding', f.open, findingSummary, findingBody);
  const rest = all - f.open.length;
  const more = element('a', '', `${num(rest)} more`);
  more.href = '#/findings';
  replace($('findingsRest'), ...(rest > 0 ? ['and ', more, ', of lower severity or older'] : []));
  $('findingsEnded').replaceChildren(...f.closed.slice(-3).reverse().map(x => {
    const p = element('p', 'soft', `ended ${ago(x.closed)} ago: ${x.title}`);
    p.append(x.ends.length ? ` at ${x.ends[0].description || x.ends[0].guid}${x.ends[0].port ? ` port ${x.ends[0].port}` : ''}` : '', ` (${x.why_closed})`);
    return p;
  }));
}

function event(e) {
  const t = element('time', '', clock(e.time)), m = element('span', e.level, e.message);
  t.dateTime = e.time;
  const a = { ...e.attrs }, where = [a.node || a.node_guid, a.port && `port ${a.port}`].filter(Boolean).join(' ');
  if (where) m.prepend(element('b', '', `${where}: `));
  m.title = Object.entries(a).map(([k, v]) => `${k} ${v}`).join('\n'); // the rest
  return element('li', '', t, m);
}

// show is the view. A standby has its events alone.
export function show(main, params, ctx) {
  main.classList.add('two');
  main.append(html(page));
  const log = $('log');
  log.append(...ctx.recent().slice(-kept).reverse().map(event));
  ctx.live('', e => {
    log.prepend(event(e));
    while (log.children.length > kept) log.lastElementChild.remove();
  });
  ctx.every(2000, async s => {
    if (!ctx.ha.active) return;
    const [r, f, out] = await Promise.all([ctx.get('v1/repairs'), ctx.get(`v1/findings?by=severity&limit=${shown}`), ctx.get('v1/ports/actions')]);
    numbers(s, out);
    showSweep(s);
    showRepairs(r);
    findings(f);
  });
  return { close: () => main.classList.remove('two') };
}
