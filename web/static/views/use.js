// The use of cables: the switches by levels, and the cables between them. The server has placed the
// switches already.

import { $, bits, css, element, html, num } from '../dom.js';

const page = `<section id="fabric" aria-label="Fabric">
  <h2>Fabric <small id="legend">
    <span id="stateKey"><i class="key active"></i>active</span> <i class="key part"></i>partly up <i class="key down"></i>not active
  </small></h2>
  <p id="scale" hidden></p>
  <div id="canvas"><canvas role="img" aria-label="The switches of the fabric by levels and the links between them"></canvas><div id="tip" hidden></div></div>
  <div id="map" hidden><canvas role="img" aria-label="The use of the cables between switches, a cell for each pair"></canvas><div id="maptip" hidden></div></div>
</section>`;

let canvas;
let picture = null, spots = [], used = null;

const steps = 5; // colors of use, --use0 to --use4
const percent = x => `${+(100 * x).toPrecision(2)} %`;

// scale is the end of the colors: the least of 1, 2, 5, 10, 20 … that the busiest
// cable does not exceed, so that light loads show too. It says so in the legend.
function scale(most) {
  if (!(most > 0)) return 1;
  const ten = 10 ** Math.floor(Math.log10(most));
  return Math.min(1, [1, 2, 5, 10].map(k => k * ten).find(x => x >= most * 0.999) || 10 * ten);
}

const name = id => {
  for (const row of picture.levels || []) for (const n of row) if (n.id === id) return n.name || n.guid;
  return '?';
};

// legend says what the colors of cables mean, and which cable is the busiest.
function legend(top, most) {
  $('scale').hidden = !used;
  $('map').hidden = !used;
  $('stateKey').hidden = Boolean(used);
  if (!used) return;
  const text = (t, kind) => {
    const e = document.createElement('span');
    e.textContent = t;
    e.className = kind || '';
    return e;
  };
  const keys = [text('idle')];
  for (let i = 0; i < steps; i++) {
    const k = document.createElement('i');
    k.className = `key use${i}`;
    k.title = `${percent(top * i / steps)} to ${percent(top * (i + 1) / steps)} of the rate of a cable`;
    keys.push(k);
  }
  const p = text(most.use > 0
    ? `busiest cable: ${bits(most.use * most.gbps)}, ${percent(most.use)} of its rate, ${name(most.from)} to ${name(most.to)}`
    : used.seconds > 0 ? 'no cable carries packets' : 'measuring…', 'more');
  p.title = `${used.source}, mean of ${Math.round(used.seconds)} s; of parallel cables the busiest`;
  $('scale').replaceChildren(...keys, text(percent(top)), p);
}

// drawMap draws a cell for each pair of switches that have cables, the left half
// for the way up and the right half for the way down: 648 lines that cross say
// little, 648 cells much. Levels are as in the drawing above.
function drawMap(d, linkOf, color) {
  const canvas = $('map').querySelector('canvas');
  const levels = (d.levels || []).map(row => row.map(n => n.id)), level = new Map();
  levels.forEach((row, i) => row.forEach(id => level.set(id, i)));
  const maps = new Map(); // lower level, upper level
  for (const l of linkOf.values()) {
    const x = level.get(l.a), y = level.get(l.b);
    if (x !== undefined && y !== undefined) maps.set(Math.min(x, y) * 64 + Math.max(x, y), [Math.min(x, y), Math.max(x, y)]);
  }
  const dpr = devicePixelRatio || 1, w = canvas.clientWidth, left = 86, gap = 22;
  const sizes = [...maps.keys()].sort((a, b) => b - a).map(k => {
    const [lo, hi] = maps.get(k), cols = levels[lo], rows = levels[hi];
    return { cols, rows, lo, hi, cw: (w - left - 12) / cols.length, ch: Math.max(1, Math.min(9, 300 / rows.length)) };
  });
  const h = sizes.reduce((a, s) => a + s.rows.length * s.ch + gap, 0);
  canvas.style.height = `${h}px`;
  canvas.width = w * dpr;
  canvas.height = h * dpr;
  const g = canvas.getContext('2d');
  g.scale(dpr, dpr);
  g.font = '12px system-ui, sans-serif';
  g.textBaseline = 'top';
  cells = [];
  let top = 0;
  for (const s of sizes) {
    g.fillStyle = css('--soft');
    g.fillText(`level ${s.hi + 1}`, 4, top);
    g.fillText(`level ${s.lo + 1}, from left to right; each cell: up, down`, left, top + s.rows.length * s.ch + 3);
    s.rows.forEach((up, r) => s.cols.forEach((down, c) => {
      const l = linkOf.get(Math.min(up, down) * 65536 + Math.max(up, down));
      if (!l) return;
      const there = l.a === down ? l.ab : l.ba, back = l.a === down ? l.ba : l.ab;
      const x = left + c * s.cw, y = top + r * s.ch, edge = s.cw > 4 ? 1 : 0, half = (s.cw - edge) / 2;
      g.fillStyle = color(there);
      g.fillRect(x, y, half, s.ch - (s.ch > 3 ? 1 : 0));
      g.fillStyle = color(back);
      g.fillRect(x + half, y, half, s.ch - (s.ch > 3 ? 1 : 0));
    }));
    cells.push({ ...s, left, top, linkOf });
    top += s.rows.length * s.ch + gap;
  }
}
let cells = [];

function draw(d) {
  picture = d;
  const dpr = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  canvas.width = w * dpr;
  canvas.height = h * dpr;
  const g = canvas.getContext('2d');
  g.scale(dpr, dpr);
  g.clearRect(0, 0, w, h);
  spots = [];
  const good = css('--good'), warn = css('--warn'), bad = css('--bad'), soft = css('--soft'), ink = css('--ink');
  const levels = d.levels || [];
  if (!levels.length) {
    g.fillStyle = soft;
    g.fillText('nothing discovered yet', 12, 20);
    return;
  }
  const left = 86, top = 30, bottom = h - 56, at = new Map();
  levels.forEach((row, i) => {
    const y = levels.length === 1 ? (top + bottom) / 2 : bottom - i * (bottom - top) / (levels.length - 1);
    row.forEach((n, j) => at.set(n.id, { x: left + (w - left - 12) * (j + 0.5) / row.length, y, n, level: i }));
  });
  // Links: faint if there are many, but always plain if one has failed.
  const links = d.links || [];
  const alpha = Math.max(0.06, Math.min(0.7, 60 / Math.sqrt(links.length * 12 + 1)));
  const strokes = (list, color, a, width) => {
    g.globalAlpha = a;
    g.strokeStyle = color;
    g.lineWidth = width;
    g.beginPath();
    for (const l of list) {
      const p = at.get(l.a), q = at.get(l.b);
      if (!p || !q) continue;
      g.moveTo(p.x, p.y);
      if (p.level === q.level) g.quadraticCurveTo((p.x + q.x) / 2, p.y - Math.min(60, 8 + Math.abs(p.x - q.x) / 4), q.x, q.y);
      else g.lineTo(q.x, q.y);
    }
    g.stroke();
    g.globalAlpha = 1;
  };
  // By use if it is measured: the busy ones last, dark and wide. Those with a failed
  // cable are dashed, so that colors are not all that tells them apart.
  const share = new Map(), most = { use: 0 };
  for (const l of used && used.generation === d.generation ? used.links : []) {
    share.set(l.a * 65536 + l.b, Math.max(l.ab, l.ba));
    if (l.ab > most.use) Object.assign(most, { use: l.ab, gbps: l.gbps, from: l.a, to: l.b });
    if (l.ba > most.use) Object.assign(most, { use: l.ba, gbps: l.gbps, from: l.b, to: l.a });
  }
  const end = scale(most.use), step = x => Math.min(steps - 1, Math.floor(steps * (x || 0) / end));
  const busy = l => step(share.get(l.a * 65536 + l.b));
  const whole = links.filter(l => l.up === l.n);
  if (used) {
    const dense = Math.min(1, 10 / Math.sqrt(links.length + 1)); // many lines are thin and faint
    for (let i = 0; i < steps; i++) {
      const k = i / (steps - 1);
      strokes(whole.filter(l => busy(l) === i), css(`--use${i}`), Math.min(1, dense * (0.6 + k)), 0.5 + 0.7 * k + 1.5 * k * dense);
    }
  } else {
    strokes(whole, good, alpha, 1);
  }
  g.setLineDash([6, 3]);
  strokes(links.filter(l => l.up > 0 && l.up < l.n), warn, 0.9, 1.5);
  g.setLineDash([3, 4]);
  strokes(links.filter(l => l.up === 0), bad, 0.9, 1.5);
  g.setLineDash([]);
  legend(end, most);
  if (used) {
    const colors = Array.from({ length: steps }, (_, i) => css(`--use${i}`));
    const linkOf = new Map((used.generation === d.generation ? used.links : []).map(l => [l.a * 65536 + l.b, l]));
    drawMap(d, linkOf, x => colors[step(x)]);
  }
  const hosts = new Map((used ? used.hosts : []).map(h => [h.switch, h]));
  const traffic = n => {
    if (!used) return '';
    const own = used.links.filter(l => l.a === n.id || l.b === n.id).map(l => l.a === n.id ? [l.ab, l.ba, l.b] : [l.ba, l.ab, l.a]);
    own.sort((x, y) => Math.max(y[0], y[1]) - Math.max(x[0], x[1]));
    const h = hosts.get(n.id), lines = own.slice(0, 3).map(([out, back, to]) => `${name(to)}: ${percent(out)} there, ${percent(back)} back`);
    if (h) lines.push(`busiest host cable: ${percent(h.up)} from, ${percent(h.down)} to the host`);
    return lines.map(l => `\n${l}`).join('');
  };

  g.font = '12px system-ui, sans-serif';
  g.textBaseline = 'middle';
  levels.forEach((row, i) => {
    const size = Math.max(2.5, Math.min(12, 0.38 * (w - left) / row.length));
    const y = at.get(row[0].id).y;
    g.fillStyle = soft;
    g.fillText(`level ${i + 1}`, 4, y - 7);
    g.fillText(`${row.length} switch${row.length === 1 ? '' : 'es'}`, 4, y + 8);
    for (const n of row) {
      const { x } = at.get(n.id);
      g.fillStyle = n.state === 'ok' ? ink : bad;
      g.fillRect(x - size / 2, y - size / 2, size, size);
      spots.push({ x, y, r: size / 2 + 3, text: `${n.name}\n${n.guid}\n${n.hosts} hosts, ${n.hosts_active} active\n${n.state}${traffic(n)}` });
      if (n.hosts) { // the hosts of a switch: a bar whose filled part is the share of active hosts
        const by = y + size / 2 + 5, bh = Math.min(26, 3 + n.hosts);
        const bw = Math.max(2, size * 0.8);
        g.fillStyle = bad;
        g.fillRect(x - bw / 2, by, bw, bh);
        g.fillStyle = good;
        g.fillRect(x - bw / 2, by, bw, bh * n.hosts_active / n.hosts);
      }
    }
  });
  const count = levels.flat().reduce((a, n) => a + n.hosts, 0);
  g.fillStyle = soft;
  g.fillText(`${num(count)} hosts: the bar below a switch is what hangs on it; red is what has gone`, left, h - 10);
}

// tips shows what find says about a place on a canvas.
function tips(canvas, tip, find) {
  canvas.addEventListener('mousemove', e => {
    const b = canvas.getBoundingClientRect(), x = e.clientX - b.left, y = e.clientY - b.top;
    const text = find(x, y);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.min(x + 12, b.width - 260)}px`;
    tip.style.top = `${y + 12}px`;
  });
  canvas.addEventListener('mouseleave', () => { tip.hidden = true; });
}

// show is the view. The use of cables is asked for again so that at most an eleventh of the time goes
// into drawing.
export function show(main, params, ctx) {
  main.replaceChildren(html(page));
  canvas = document.querySelector('#canvas canvas');
  picture = used = null;
  tips(canvas, $('tip'), (x, y) => spots.find(s => Math.abs(s.x - x) <= s.r && Math.abs(s.y - y) <= s.r)?.text);
  tips($('map').querySelector('canvas'), $('maptip'), (x, y) => {
    for (const s of cells) {
      const down = s.cols[Math.floor((x - s.left) / s.cw)], up = s.rows[Math.floor((y - s.top) / s.ch)];
      const l = down !== undefined && up !== undefined && s.linkOf.get(Math.min(up, down) * 65536 + Math.max(up, down));
      if (!l) continue;
      const there = l.a === down ? l.ab : l.ba, back = l.a === down ? l.ba : l.ab;
      return `${name(down)} to ${name(up)}: ${bits(there * l.gbps)}, ${percent(there)}\n${name(up)} to ${name(down)}: ${bits(back * l.gbps)}, ${percent(back)}`;
    }
    return '';
  });
  let drawn = -1, told = -1, due = 0;
  ctx.every(2000, async s => {
    if (s.generation === drawn && performance.now() < due) return;
    const began = performance.now();
    const use = await ctx.get('v1/use');
    if (s.generation !== drawn) {
      picture = await ctx.get('v1/drawing');
      drawn = picture.generation;
    }
    const changed = s.generation !== told || use.source || used;
    told = s.generation;
    used = use.source ? use : null;
    if (changed) draw(picture);
    due = use.source && !use.seconds ? 0 : performance.now() + 10 * (performance.now() - began); // 0: it is being measured
  });
  const again = () => picture && draw(picture);
  addEventListener('resize', again);
  addEventListener('theme', again);
  return { close() { removeEventListener('resize', again); removeEventListener('theme', again); } };
}
