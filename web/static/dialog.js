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

// inform shows something until it is closed.
export function inform(title, content) {
  const d = $('dialog');
  const h = element('h2', '', title);
  h.id = 'dialogTitle';
  d.replaceChildren(h, ...content, element('p', 'buttons', button('Close', () => d.close())));
  d.onclose = () => d.replaceChildren();
  d.showModal();
}
