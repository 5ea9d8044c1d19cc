// Questions before something is changed.

import { $, button, element } from './dom.js';

// confirm asks whether to go on, with what will happen, and returns whether to. verb is what the button says.
export function confirm(title, verb, content, kind) {
  const d = $('dialog');
  const h = element('h2', '', title);
  h.id = 'dialogTitle';
  return new Promise(done => {
    const go = button(verb, () => d.close('go'), kind || '');
    d.replaceChildren(h, ...content, element('p', 'buttons', go, button('Cancel', () => d.close('cancel'))));
    d.onclose = () => {
      d.replaceChildren();
      done(d.returnValue === 'go');
    };
    d.returnValue = '';
    d.showModal();
    d.querySelector('.buttons button:last-child').focus(); // Enter does nothing by mistake
  });
}

// perform shows what an action would do, asks, and does it. told(text, kind) shows what came of it.
export async function perform(ctx, a, told) {
  const from = document.activeElement;
  let plan;
  try {
    told('finding out what it would do…', '');
    plan = await a.plan();
    told('', '');
  } catch (e) {
    told('', '');
    await inform(`${a.title}: not possible`, [element('p', 'bad', e.message), ...(a.refused || []), element('p', 'soft', 'Nothing was changed.')]);
    return void back(from);
  }
  if (await confirm(a.title, a.verb, [...plan, element('p', 'soft', `Needs the role ${a.role}; you are ${ctx.name}, ${ctx.role}.`)], a.danger ? 'danger' : '')) {
    try {
      told(await a.run(), 'good');
    } catch (e) {
      told(`${a.title}: ${e.message}`, 'bad');
    }
  }
  back(from);
}

// back gives the keyboard to a button again, or to the one that has taken its place.
function back(b) {
  if (b.isConnected) b.focus();
  else [...document.querySelectorAll('main button')].find(x => x.dataset.id && x.dataset.id === b.dataset.id)?.focus();
}

// list is a list of short sentences; empty ones are left out.
export const list = (...lines) => element('ul', '', ...lines.filter(Boolean).map(l => element('li', '', l)));

// inform shows something, and returns when it is closed.
export function inform(title, content) {
  const d = $('dialog');
  const h = element('h2', '', title);
  h.id = 'dialogTitle';
  return new Promise(done => {
    d.replaceChildren(h, ...content, element('p', 'buttons', button('Close', () => d.close())));
    d.onclose = () => {
      d.replaceChildren();
      done();
    };
    d.showModal();
  });
}
