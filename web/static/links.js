// Links between switches: what operators had done to them, and how they drain, isolate and restore them.

import { list, perform } from './dialog.js';
import { button, clock, date, element, facts, num } from './dom.js';

const words = { drain: 'drained', isolate: 'isolated', restore: 'restored' };

// state is how far an action is: a link with entries over it is not drained yet.
const state = a => (a.entries && !a.disabled || a.action === 'restore' ? 'being ' : '') + (words[a.action] || a.action);

const titles = { drain: 'Drain', isolate: 'Isolate', restore: 'Restore' };
const times = [['', 'until somebody restores it'], ['30m', '30 minutes'], ['2h', '2 hours'], ['8h', '8 hours'], ['24h', '24 hours'], ['168h', '7 days']];

// outOf is what was done to the link at a port: a row of v1/ports/actions, or nothing.
export const outOf = (rows, guid, port) => rows.find(a => a.guid === guid && a.port === port || a.peer_guid === guid && a.peer_port === port);

// outOfUse reports whether a problem of a map is a link that was taken out of use: nothing is wrong with it.
export const outOfUse = p => Object.values(words).includes(p.state);

// actionText says in one line what was done to a link, by whom and until when.
export function actionText(a) {
  const parts = [`${state(a)} since ${date(a.since)}`];
  if (a.until) parts.push(`until ${date(a.until)}`);
  if (a.rule) parts.push(`by the rule ${a.rule} of findings`);
  else if (a.by) parts.push(`by ${a.by}`);
  if (a.why) parts.push(a.why);
  if (a.action !== 'restore' && a.entries) parts.push(`${num(a.entries)} entries still lead over it`);
  if (a.action === 'isolate' && !a.disabled) parts.push(a.disable_at ? `disabled at about ${date(a.disable_at)}` : 'not disabled yet');
  if (a.goes_on_at) parts.push(`waits until about ${clock(a.goes_on_at)} for packets of earlier routes to leave`);
  return parts.join(', ');
}

// actionMark is the same as a sign with a word: a link without routes is no good link, whatever its state.
export function actionMark(a) {
  const sign = element('span', '', a.action === 'isolate' ? '⊘' : '⊖');
  sign.setAttribute('aria-hidden', 'true');
  const e = element('span', 'mark out', sign, ` ${state(a)}`);
  e.title = actionText(a);
  return e;
}

const what = {
  drain: ['The link stays up, without routes: paths move to other links.', 'The new tables are written in an order without loops.', 'Paths change, so packets of a connection may arrive out of order for a moment.'],
  isolate: ['Paths move to other links first; when nothing leads over the link, one of its ends is disabled.', 'It carries nothing then, not even management packets. Restore enables it again.', 'Paths change, so packets of a connection may arrive out of order for a moment.'],
  restore: ['Routes may lead over the link again: the next sweep computes them.', 'An end that was disabled is enabled.'],
};

// action is what perform does with the link at a port.
function action(ctx, verb, guid, port) {
  const path = `v1/ports/${encodeURIComponent(guid)}/${port}/${verb}`;
  const hold = element('select', '', ...times.map(([v, t]) => new Option(t, v))), why = element('input', '');
  why.maxLength = 200;
  why.autocomplete = 'off';
  return {
    title: `${titles[verb]} a link`, verb: `${titles[verb]} the link`, role: 'operator', danger: verb === 'isolate',
    refused: [list('The last link to a part of the subnet always keeps its routes.', 'At most 10 links, or 0.5 % of the ports if that is less, are out of use at a time.')],
    async plan() {
      const p = await ctx.send('POST', `${path}?dry_run=true`);
      const rows = [['link', `${p.description || p.guid} port ${p.port} – ${p.peer_description || p.peer_guid} port ${p.peer_port}`]];
      if (verb === 'restore') {
        rows.push(['now', p.disabled ? 'one of its ends is disabled' : 'without routes']);
        return [facts(rows), list(...what.restore)];
      }
      rows.push(['entries that lead over it', num(p.entries)]);
      if (p.engine) {
        rows.push(['entries that change', num(p.entries_changed)], ['LFT blocks to write', num(p.blocks_changed)], ['switches with changes', num(p.switches_changed)],
          ['most paths over one link', `${num(p.load_before)}, then ${num(p.load_after)}`], ['new tables', `by ${p.engine}, proved`]);
      } else {
        rows.push(['entries that change', 'none: the link is without routes already']);
      }
      if (verb === 'isolate' && p.disable_wait_seconds) rows.push(['an end is disabled', `${num(Math.round(p.disable_wait_seconds))} s after the last entry over the link has gone`]);
      const form = element('p', 'fields', element('label', '', 'For ', hold), ' ', element('label', '', 'Reason ', why));
      return [facts(rows), list(...what[verb]), form];
    },
    async run() {
      const q = new URLSearchParams({ dry_run: false });
      if (hold.value) q.set('for', hold.value);
      if (why.value.trim()) q.set('why', why.value.trim());
      await ctx.send('POST', `${path}?${q}`);
      return verb === 'restore' ? 'the link gets routes again with the next sweep' : `the link is to be ${words[verb]}: the next sweep does it`;
    },
  };
}

// linkButtons are the buttons of a link, by what was done to it. said(text, kind) shows what came of it.
export function linkButtons(ctx, done, guid, port, name, said) {
  const verbs = !done ? ['drain', 'isolate'] : done.action === 'drain' ? ['restore', 'isolate'] : done.action === 'isolate' ? ['restore', 'drain'] : ['drain', 'isolate'];
  return verbs.map(v => {
    const b = button(`${titles[v]}…`, () => perform(ctx, action(ctx, v, guid, port), said), v === 'isolate' ? 'danger' : '');
    b.dataset.id = `${v} ${guid} ${port}`;
    if (name) b.setAttribute('aria-label', `${titles[v]} ${name}`);
    return b;
  });
}
