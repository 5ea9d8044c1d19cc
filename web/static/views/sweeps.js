// Sweeps: what the last one did, and how faults were repaired.

import { element, facts, html, num, section } from '../dom.js';
import { repairsPart, showRepairs, showSweep, sweepPart } from '../sweeps.js';

// show is the view.
export function show(main, params, ctx) {
  main.classList.add('two');
  const sums = element('div', '');
  main.append(html(sweepPart), section('Sweeps and packets', sums), html(repairsPart));
  ctx.every(2000, async s => {
    const l = s.last_sweep;
    sums.replaceChildren(facts([
      ['cause of the last', l.reason], ['sweeps', num(s.sweeps)], ['light sweeps', num(s.light_sweeps)], ['SMPs of the last', num(l.smps)],
      ['LFT blocks sent', num(l.lft_blocks_sent)], ['LFT blocks read', num(l.lft_blocks_read)], ['MFT blocks sent', num(l.mft_blocks_sent)],
      ['ports set', num(l.port_sets)], ['ports armed', num(l.ports_armed)], ['ports activated', num(l.ports_activated)],
      ['SMPs sent', num(s.smps_sent)], ['sent again', num(s.smps_retried)], ['timed out', num(s.smps_timed_out)],
    ]));
    showSweep(s);
    showRepairs(await ctx.get('v1/repairs'));
  });
  return { close: () => main.classList.remove('two') };
}
