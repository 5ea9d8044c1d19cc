// Actions: what an operator may do, each with its role and with what it will change before it is done.

import { confirm, inform, list, perform } from '../dialog.js';
import { actionText, linkButtons } from '../links.js';
import { plan as partitionPlan } from '../partitions.js';
import { button, date, element, facts, grid, link, num, place, seconds, section, within } from '../dom.js';

// act is an action: its text, the least role, whether it can be done now, and what it does.
function act(ctx, a) {
  const said = element('p', 'said');
  const b = button(`${a.title}…`, () => perform(ctx, a, (text, kind) => {
    said.textContent = text;
    said.className = `said ${kind}`;
    ctx.say(text);
  }), a.danger ? 'danger' : '');
  const why = element('p', 'soft');
  const part = section(a.title, element('p', '', a.text), ...(a.fields || []), element('p', '', b), why, said);
  return {
    part,
    refresh(s, h) {
      const no = !ctx.may(a.role) ? `needs the role ${a.role}; you have ${ctx.role}: sign in` : a.not(s, h);
      b.disabled = Boolean(no);
      why.textContent = no || `role ${a.role}`;
    },
  };
}

// field is what an action asks for, with its name.
const field = (name, input) => element('p', 'fields', element('label', '', `${name} `, input));

// choice is one of some words.
function choice(chosen, ...words) {
  const s = element('select', '', ...words.map(w => new Option(w, w)));
  s.value = chosen;
  return s;
}

function actions(ctx) {
  const standby = (s, h) => h.active ? '' : 'this manager is standby: open the page of the active one';
  const rebalance = element('input', '');
  rebalance.type = 'checkbox';
  rebalance.id = 'rebalance';
  const label = element('label', '', ' without regard to the installed tables: even load, more to write');
  label.htmlFor = 'rebalance';
  const priority = Object.assign(element('input', ''), { type: 'number', min: 0, max: 15, step: 1, value: ctx.status?.priority ?? 0 });
  const level = choice('info', 'debug', 'info', 'warn', 'error'), mode = choice('observe', 'off', 'observe', 'act', 'withdraw');
  return [
    {
      title: 'Sweep', verb: 'Start the sweep', role: 'operator', not: standby,
      text: 'Reads the whole subnet again. Routes change only where the subnet has changed.',
      plan: async () => [facts([['nodes to read', num(ctx.status.switches + ctx.status.cas + ctx.status.routers)], ['links', num(ctx.status.links)],
        ['SMPs of the last sweep', num(ctx.status.last_sweep.smps)], ['it took', seconds(ctx.status.last_sweep.seconds)]]),
      list('No port is taken down. Hosts and the SA are served during the sweep.', ctx.status.phase === 'idle' ? ''
        : ctx.status.wait_seconds ? 'A sweep is under way and waits for packets to leave: it gives way to this one, or this one follows it.'
          : `A sweep is under way (${ctx.status.phase}): this one follows it.`)],
      run: async () => { await ctx.send('POST', 'v1/sweep'); return 'the sweep is requested'; },
    },
    {
      title: 'Reroute', verb: 'Compute and install routes', role: 'operator', danger: true, not: standby,
      text: 'Computes the tables of all switches from scratch and installs them.', fields: [element('p', '', rebalance, label)],
      plan: async () => {
        const p = await ctx.send('POST', `v1/reroute?dry_run=true&rebalance=${rebalance.checked}`);
        const none = !p.blocks_changed;
        return [facts([['engine', p.engine === ctx.status.engine ? p.engine : `${p.engine}, now ${ctx.status.engine || 'none'}`], ['switches with changes', `${num(p.switches_changed)} of ${num(ctx.status.switches)}`],
          ['LFT blocks to write', num(p.blocks_changed)], ['entries that change', num(p.entries_changed)], ['most paths over one link', `${num(p.load_before)}, then ${num(p.load_after)}`]]),
        list(none ? 'The installed tables are these already: nothing would be written.' : 'The new tables are proved; they are written in an order in which no packet loops or waits in a cycle.',
          none ? '' : 'Paths change, so packets of a connection may arrive out of order for a moment.',
          ...(p.engines_passed_over || []).map(e => `Passed over: ${e}`))];
      },
      run: async () => { await ctx.send('POST', `v1/reroute?rebalance=${rebalance.checked}`); return 'new routes are requested'; },
    },
    {
      title: 'Reload', verb: 'Apply the settings', role: 'admin', not: () => '',
      text: 'Reads the configuration and the files that it names again, as SIGHUP does.',
      plan: async () => {
        const r = await ctx.send('POST', 'v1/reload?dry_run=true');
        const shown = x => x === '' ? '(empty)' : x;
        return [r.changes.length ? grid('Settings that differ', ['setting', 'in force', 'read', 'applies'], r.changes.map(c => [c.setting, c.from || c.to ? shown(c.from) : 'not shown', c.from || c.to ? shown(c.to) : 'not shown', c.applies === 'now' ? 'now' : 'after a restart']))
          : element('p', '', 'No setting differs.'),
        ...(r.partitions ? [element('p', '', 'The file of partitions differs from the partitions in force:'), ...partitionPlan(r.partitions)] : []),
        list(r.files.length ? `Files that are read again, changed or not: ${r.files.join(', ')}.` : 'The settings name no files.',
          r.reroute ? 'Settings of routing differ: all tables are computed anew.' : 'No routes change by settings.', r.later ? 'No manager runs in this process: it applies when it becomes active.' : '')];
      },
      run: async () => {
        const r = await ctx.send('POST', 'v1/reload'), now = r.changes.filter(c => c.applies === 'now').length;
        return `read again: ${num(now)} setting${now === 1 ? '' : 's'} changed${r.partitions ? ', and the partitions; ports are brought up to date' : ''}${r.restart.length ? `; a restart is needed for ${r.restart.join(', ')}` : ''}`;
      },
    },
    {
      title: 'Handover', verb: 'Make the partner active', role: 'operator', danger: true,
      text: 'Makes the other manager of the pair active.',
      not: (s, h) => !h.pair ? 'this manager has no partner' : !h.active ? 'this manager is standby: open the page of the active one'
        : h.state !== 'paired' ? `the partner cannot take over: ${h.why || h.state}` : '',
      plan: async () => {
        const h = await ctx.get('v1/ha'), p = h.pair;
        return [facts([['partner', p.peer], ['its port', p.peer_guid], ['changes that it lacks', num(p.lag_entries)], ['term', `${num(p.term)}, then ${num(p.term + 1)}`],
          ['it knows the subnet', p.peer_active ? '' : 'as this manager published it last']]),
        list('This manager becomes standby. No LID, route or membership changes.', 'The SA is silent for a fraction of a second.', 'This page then shows where the active manager is.')];
      },
      run: async () => { await ctx.send('POST', 'v1/ha/handover'); return 'the partner is active'; },
    },
    {
      title: 'Takeover', verb: 'Make this manager active', role: 'admin', danger: true,
      text: 'Makes this standby active although the other manager does not hand over.',
      not: (s, h) => !h.pair ? 'this manager has no partner' : h.active ? 'this manager is active' : '',
      plan: async () => {
        const h = await ctx.get('v1/ha'), p = h.pair;
        return [facts([['partner', p.peer], ['heard over TCP', p.stream_sign_seconds < 0 ? 'never' : `${p.stream_sign_seconds.toFixed(1)} s ago`],
          ['heard in the subnet', p.fabric_sign_seconds < 0 ? 'never' : `${p.fabric_sign_seconds.toFixed(1)} s ago`], ['changes that may be missing', num(p.lag_entries)]]),
        list('If the partner still works, it steps down once it hears this manager.', 'It is refused if acknowledged changes would be lost; "heddle ctl ha takeover --stale" forces it.')];
      },
      run: async () => { await ctx.send('POST', 'v1/ha/takeover'); return 'this manager is active'; },
    },
    {
      title: 'Priority', verb: 'Set the priority', role: 'operator', not: () => '',
      text: 'Sets the priority of this manager in the election of a master, 0 to 15. The highest becomes master.', fields: [field('new priority', priority)],
      plan: async () => {
        const to = priority.valueAsNumber;
        if (!(Number.isInteger(to) && to >= 0 && to <= 15)) throw new Error('a priority is a whole number from 0 to 15');
        const [s, h] = await Promise.all([ctx.get('v1/status'), ctx.get('v1/ha')]), p = h.pair;
        const from = p ? p.priority : s.priority;
        return [facts([['priority of this manager', from === to ? `${from}: it stays` : `${from}, then ${to}`], ['this manager is', h.active ? 'active' : 'standby'],
          ['priority of the partner', !p ? '' : p.peer_priority < 0 ? 'it does not say' : num(p.peer_priority)]]),
        list(p ? 'It counts against third managers alone: in a pair neither changes its role. Set it at both, and to the same.' : '',
          h.active && to < from ? 'If another manager of the subnet ranks above this one then, this one hands over to it.' : '',
          h.active ? '' : 'If a third manager is master and ranks below this one then, this one may become active.',
          'No LID, route or membership changes by itself.', 'It holds until the next restart, or until a reload: the configuration keeps its own value.')];
      },
      run: async () => { const to = priority.valueAsNumber; await ctx.send('POST', `v1/ha/priority?priority=${to}`); return `the priority is ${to}`; },
    },
    {
      title: 'Log level', verb: 'Set the level', role: 'operator', not: () => '',
      text: 'Sets from which level on this manager writes its log.', fields: [field('new level', level)],
      plan: async () => {
        const l = await ctx.get('v1/loglevel');
        return [facts([['level', l.level === level.value ? `${l.level}: it stays` : `${l.level}, then ${level.value}`]]),
          list({
            debug: 'Each step is logged, without a bound on lines of a kind: the log grows fast.', info: 'Changes of the subnet and of the manager are logged, as by default.',
            warn: 'Only what needs a look is logged.', error: 'Only what failed is logged.',
          }[level.value], 'Events of this page, webhooks and the audit log stay as they are.', 'It holds until the next restart, or until a reload finds another log-level in the configuration.')];
      },
      run: async () => { const l = await ctx.send('PUT', 'v1/loglevel', { level: level.value }); return `the level is ${l.level}`; },
    },
    {
      title: 'Congestion control', verb: 'Set the mode', role: 'operator', danger: true, not: standby,
      text: 'Sets what the manager does about congestion control of switches and adapters.', fields: [field('new mode', mode)],
      plan: async () => {
        const c = await ctx.get('v1/congestion');
        return [facts([['mode', c.mode === mode.value ? `${c.mode}: it stays` : `${c.mode}, then ${mode.value}`], ['agents', num(c.agents)], ['with congestion control', num(c.managed)],
          ['with other settings than wanted', num(c.differs)], ['not read yet', num(c.pending)], ['locked by another key', num(c.locked)]]),
        list({
          off: 'The manager sends nothing more. Nodes keep the settings that they have, and go on marking packets and slowing senders.', observe: 'Settings and logs are read, and nothing is written.',
          act: 'All agents get the settings that the manager computes, and their logs are read.', withdraw: 'Congestion control is switched off at all agents.',
        }[mode.value], 'It holds until the next restart.')];
      },
      run: async () => { await ctx.send('POST', 'v1/congestion/mode', { mode: mode.value }); return `the mode is to be ${mode.value}`; },
    },
  ];
}

// out lists the links that are drained or isolated.
function out(ctx) {
  const table = element('div', ''), said = element('p', 'said'), part = section('Links out of use', table, said);
  const tell = (text, kind) => {
    said.textContent = text;
    said.className = `said ${kind}`;
    ctx.say(text);
  };
  let shown = '';
  async function refresh() {
    const rows = await ctx.get('v1/ports/actions'), now = JSON.stringify([rows, ctx.role]);
    if (now === shown) return;
    shown = now;
    const end = (g, d, n) => place({ guid: g, description: d, port: n });
    within(table, () => table.replaceChildren(rows.length ? grid('Links out of use', ['link', 'to', 'what was done', ''], rows.map(a => {
      const name = `${a.description || a.guid} port ${a.port}`;
      return [end(a.guid, a.description, a.port), end(a.peer_guid, a.peer_description, a.peer_port), actionText(a),
        ctx.may('operator') ? element('span', 'acts', ...linkButtons(ctx, a, a.guid, a.port, name, tell)) : ''];
    })) : element('p', 'soft', 'No link is drained or isolated. To drain or isolate one, find it in the table of ', link('#/cables?q=between+switches', 'cables between switches'), '.')));
  }
  return { part, refresh };
}

// tokens are the named tokens, for administrators.
function tokens(ctx) {
  const table = element('div', ''), part = section('Tokens', table);
  async function revoke(t) {
    const yes = await confirm(`Revoke ${t.name}`, 'Revoke the token', [facts([['role', t.role], ['made by', t.created_by], ['made', date(t.created)], ['last used', t.last_used ? date(t.last_used) : 'never']]),
      list('Whoever uses it is refused from now on, on both managers of a pair.', 'It cannot be undone: a new token has another text.')], 'danger');
    if (!yes) return;
    try {
      await ctx.send('DELETE', `v1/tokens/${encodeURIComponent(t.name)}`);
      ctx.say(`${t.name} is revoked`);
    } catch (e) { inform('Revoke', [element('p', 'bad', e.message)]); }
    await refresh();
  }
  let shown = '';
  async function refresh() {
    part.hidden = !ctx.may('admin');
    if (part.hidden) return;
    let rows;
    try { rows = await ctx.get('v1/tokens'); } catch (e) {
      if (e.status !== 404) throw e;
      table.replaceChildren(element('p', 'soft', 'This manager keeps no named tokens.'));
      return;
    }
    const now = JSON.stringify(rows);
    if (now === shown) return;
    shown = now;
    within(table, () => table.replaceChildren(rows.length ? grid('Named tokens', ['name', 'role', 'made by', 'made', 'valid until', 'last used', ''], rows.map(t => {
      const b = button('Revoke…', () => revoke(t), 'danger');
      b.setAttribute('aria-label', `Revoke ${t.name}`);
      return [t.name, t.prefix ? `${t.role} ${t.prefix}` : t.role, t.created_by, date(t.created), t.expires ? `${date(t.expires)}${t.expired ? ' (over)' : ''}` : 'it is revoked', t.last_used ? date(t.last_used) : 'never', b];
    })) : element('p', 'soft', 'There are none: "heddle ctl token create NAME --role ROLE" makes one.')));
  }
  return { part, refresh };
}

// show is the view.
export function show(main, at, ctx) {
  main.classList.add('two');
  const all = actions(ctx).map(a => act(ctx, a)), links = out(ctx), keys = tokens(ctx);
  links.part.classList.add('full');
  keys.part.classList.add('full');
  main.append(links.part, ...all.map(a => a.part), keys.part);
  ctx.every(2000, async s => {
    for (const a of all) a.refresh(s, ctx.ha);
    await Promise.all([ctx.ha.active ? links.refresh() : null, keys.refresh()]);
  });
  return { close: () => main.classList.remove('two') };
}
