// The slider over stored states of the subnet, the newest at its right end. Arrow keys move it too.

import { element, html, num } from '../dom.js';

const kept = 1000; // states on the slider

// words say what a moment changed.
function words(m) {
  const parts = [[m.gone, 'gone'], [m.new, 'new'], [m.other, 'in another state']].filter(p => p[0]).map(p => `${num(p[0])} ${p[1]}`);
  const what = parts.length ? `${parts.join(', ')}: ${m.text}` : m.whole ? 'the manager started, or stored a copy' : 'no change';
  return `${new Date(m.time).toLocaleString('en-GB')}: ${what}`;
}

// timeline puts the slider into an element. query returns the parameters of the address, address makes
// one with some of them changed.
export async function timeline(el, ctx, query, address) {
  el.replaceChildren(html(`<label for="when">Time</label> <input id="when" type="range" min="0" step="1">
    <output id="whenText" for="when"></output> <label><input id="changes" type="checkbox"> what changed then</label>`));
  const range = el.querySelector('#when'), text = el.querySelector('#whenText'), changes = el.querySelector('#changes');
  let list = []; // oldest first
  const at = () => Number(query().get('at') || 0);
  function say(i) {
    const m = list[i];
    text.textContent = m ? words(m) : `now; ${num(list.length)} stored state${list.length === 1 ? '' : 's'}`;
    range.setAttribute('aria-valuetext', text.textContent);
  }
  function moved() {
    range.max = list.length;
    const i = list.findIndex(m => m.number === at());
    range.value = i < 0 ? list.length : i;
    changes.checked = Boolean(query().get('since'));
    changes.disabled = i < 1 && list.length < 1;
    say(Number(range.value));
  }
  async function refresh() {
    const h = await ctx.get(`v1/history?limit=${kept}`);
    if (h.moments.length === list.length && h.moments[0]?.number === list.at(-1)?.number) return;
    list = h.moments.reverse();
    if (document.activeElement !== range || !at()) moved();
  }
  function go() {
    const i = Number(range.value), m = list[i];
    const before = list[(m ? i : list.length - 1) - 1];
    ctx.go(address({ at: m ? m.number : '', since: changes.checked && before ? before.number : '' }), true);
  }
  let due = 0;
  range.addEventListener('input', () => {
    say(Number(range.value));
    clearTimeout(due);
    const here = location.hash;
    due = setTimeout(() => { if (location.hash === here) go(); }, 120); // or somebody went elsewhere meanwhile
  });
  changes.addEventListener('change', () => { clearTimeout(due); go(); });
  ctx.signal.addEventListener('abort', () => clearTimeout(due));
  await refresh();
  moved();
  return { refresh, moved };
}
