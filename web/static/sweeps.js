// The last sweep, and faults with their repairs.

import { $, clock, element, html, num, seconds, show as replace } from './dom.js';

// sweepPart and repairsPart are parts of views; showSweep and showRepairs fill them.
export const sweepPart = `<section id="sweep" aria-label="Last sweep"><h2>Last sweep</h2>
  <div id="phases"></div><p id="transition"></p><p id="engine"></p></section>`;
export const repairsPart = `<section id="repairs" aria-label="Faults and repairs"><h2>Faults and repairs</h2>
  <ol id="faults" tabindex="0" aria-label="Faults, the newest first"></ol></section>`;

const phaseOrder = ['discover', 'assign', 'readback', 'route', 'discard', 'drain', 'distribute', 'top', 'lanes', 'arm', 'activate'];

export function showSweep(s) {
  const p = s.last_sweep.phases || {};
  const names = Object.keys(p).sort((a, b) => phaseOrder.indexOf(a) - phaseOrder.indexOf(b));
  const most = Math.max(...Object.values(p), 1e-9);
  $('phases').replaceChildren(...names.map(n => {
    const row = document.createElement('div');
    row.className = 'phase';
    const a = document.createElement('span'), bar = document.createElement('i'), v = document.createElement('span');
    a.textContent = n;
    bar.style.width = `${100 * p[n] / most}%`;
    v.textContent = seconds(p[n]);
    row.append(a, bar, v);
    return row;
  }));
  const l = s.last_sweep;
  replace($('transition'), l.seconds ? `${seconds(l.seconds)} in all, ${l.region ? 'region' : 'full'} sweep; ${num(l.lft_blocks_sent)} LFT blocks sent; ${l.transition || 'no change of routes'}` : 'none yet');
  replace($('engine'), s.engine ? `routes by ${s.engine}` + (s.engine_reason ? `; ${s.engine_reason}` : '') : '');
}

// showRepairs lists the last faults that broke pairs, the newest first.
export function showRepairs(list) {
  const line = (tag, text, kind) => {
    const e = document.createElement(tag);
    e.textContent = text;
    if (kind) e.className = kind;
    return e;
  };
  if (!list.length) {
    $('faults').replaceChildren(line('li', 'no fault has broken a pair since the manager started', 'none'));
    return;
  }
  $('faults').replaceChildren(...list.map(r => {
    const li = document.createElement('li'), when = new Date(r.time);
    const t = line('time', clock(when));
    t.dateTime = r.time;
    const more = r.more_faults ? ` and ${num(r.more_faults)} more` : '';
    const p = document.createElement('p'), connected = r.pairs_broken - r.pairs_left;
    p.append(`${num(r.pairs_broken)} pair${r.pairs_broken === 1 ? '' : 's'} broken`);
    if (connected) p.append(`, connected in ${seconds(r.seconds)}`);
    if (r.drains) p.append(`, ${r.drains} drain${r.drains === 1 ? '' : 's'} of ${seconds(r.drain_seconds)} in all`);
    if (r.pairs_left) p.append(', ', line('span', `${num(r.pairs_left)} left broken`, 'bad'));
    if (r.risk) {
      const mark = line('em', 'transient cycle possible');
      mark.title = `${r.risk.why}\nfor at most ${seconds(r.risk.worst_seconds)}\n${r.risk.channels.join('\n')}`;
      p.append(', ', mark);
    }
    li.append(t, line('b', r.faults.length ? r.faults.join(', ') + more : r.reason), p);
    li.title = `${r.mode} in ${r.stages} stage${r.stages === 1 ? '' : 's'}, policy ${r.policy}\n${r.reason}`;
    return li;
  }));
}
