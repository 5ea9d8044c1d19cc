// The map on a canvas: boxes of groups with bundles between them, and more detail where one looks closely.
// The server has placed everything in one coordinate system (subnet/atlas), so this only draws.

import { count, css } from './dom.js';

const mid = 70, near = 200; // width of a group on the screen, in pixels, from which its switches and its hosts are shown
const most = 10; // groups whose insides are kept

const lines = {
  gone: [3, 4], 'does not answer': [3, 4], 'not active': [6, 3], 'held down': [8, 3, 2, 3], 'left out': [6, 3], drained: [2, 3, 10, 3], isolated: [2, 3, 2, 3, 10, 3], restored: [2, 3, 10, 3],
  warning: [6, 3], critical: [], forgotten: [2, 5], new: [],
};
// links without routes: their sign has the word beside it
const out = new Set(['drained', 'isolated', 'restored']);
const marks = { gone: '×', 'does not answer': '?', 'not active': '–', 'held down': '‖', 'left out': '○', drained: '⊖', isolated: '⊘', restored: '↻', warning: '!', critical: '!', new: '+', forgotten: '×', info: 'i' };

// chart draws on a canvas. o.fetch(level, unit) gets a map; o.pick(thing) is told what was chosen, o.tip(text,
// x, y) what is under the pointer.
export function chart(canvas, o) {
  const g = canvas.getContext('2d');
  const view = { x: 0, y: 0, k: 0 }; // world at the left upper corner, pixels for a unit
  const inside = new Map(); // details by unit, those looked at last at the end
  let base = null, ways = [], chosen = '', color = {}, due = 0, asked = 0, frames = 0, drawing = 0, shapes = 0, life = 0, shown = 0;

  const colors = () => {
    for (const c of ['card', 'ink', 'soft', 'line', 'edge', 'good', 'warn', 'bad', 'accent', 'link', 'bg']) color[c] = css(`--${c}`);
  };
  const size = () => ({ w: canvas.clientWidth, h: canvas.clientHeight });
  const X = x => (x - view.x) * view.k, Y = y => (y - view.y) * view.k;

  // fit shows a part of the world, also when the canvas gets another size, until it is moved or zoomed.
  let part = null, last = null;
  function fit(x, y, w, h) {
    const s = size();
    if (!s.w) return;
    part = [x, y, w, h];
    view.k = Math.min(s.w / w, s.h / h) * 0.96;
    view.x = x + w / 2 - s.w / view.k / 2;
    view.y = y + h / 2 - s.h / view.k / 2;
    redraw();
  }
  const whole = () => base && fit(0, 0, Math.max(base.w, 40), Math.max(base.h, 40));

  function zoom(f, px, py) {
    const s = size();
    px ??= s.w / 2;
    py ??= s.h / 2;
    const least = Math.min(s.w / base.w, s.h / base.h) * 0.5, k = Math.max(least, Math.min(40, view.k * f));
    view.x += px / view.k - px / k;
    view.y += py / view.k - py / k;
    view.k = k;
    part = null;
    redraw();
  }
  function pan(dx, dy) {
    view.x += dx / view.k;
    view.y += dy / view.k;
    part = null;
    redraw();
  }

  function redraw() {
    if (!drawing) drawing = requestAnimationFrame(() => { drawing = 0; draw(); });
    clearTimeout(due);
    due = setTimeout(look, 150);
  }

  // look gets the insides of the groups that are large on the screen.
  async function look() {
    if (!base) return;
    const s = size(), mine = life;
    const large = base.groups.filter(b => b.w * view.k >= mid && X(b.x) < s.w && Y(b.y) < s.h && X(b.x + b.w) > 0 && Y(b.y + b.h) > 0)
      .sort((a, b) => Math.hypot(X(a.x + a.w / 2) - s.w / 2, Y(a.y + a.h / 2) - s.h / 2) - Math.hypot(X(b.x + b.w / 2) - s.w / 2, Y(b.y + b.h / 2) - s.h / 2)).slice(0, most);
    const turn = ++asked;
    for (const b of large) {
      const level = b.hosts && b.w * view.k >= near ? 3 : 2, has = inside.get(b.id);
      if (has && has.level >= level || level === 2 && base.switches.length) continue;
      let m;
      try { m = await o.fetch(level, b.id); } catch { return; }
      if (mine !== life) return;
      inside.delete(b.id);
      m.level = level; // the server shows less if that is too much
      inside.set(b.id, m);
      while (inside.size > most) inside.delete(inside.keys().next().value);
      draw();
      if (turn !== asked) return;
    }
  }

  const at = (m, i) => {
    const G = m.groups.length, S = m.switches.length;
    if (i < G) { const b = m.groups[i]; return [b.x + b.w / 2, b.y + b.h / 2, b]; }
    const n = i < G + S ? m.switches[i - G] : m.hosts[i - G - S];
    return [n.x, n.y, null];
  };

  // edge is where a line from a box's middle to a point leaves the box.
  function edge(b, x, y) {
    const cx = b.x + b.w / 2, cy = b.y + b.h / 2, dx = x - cx, dy = y - cy;
    if (b.w > 3 * b.h && Math.abs(dy) > b.h / 2) return [Math.max(b.x + 4, Math.min(b.x + b.w - 4, x)), cy + Math.sign(dy) * b.h / 2]; // a band
    const f = Math.min(b.w / 2 / Math.max(1e-6, Math.abs(dx)), b.h / 2 / Math.max(1e-6, Math.abs(dy)), 1);
    return [cx + dx * f, cy + dy * f];
  }

  function bundles(m, skip) {
    const s = size(), kinds = new Map();
    const many = Math.max(0.12, Math.min(0.8, 14 / Math.sqrt(m.bundles.length + 1)));
    for (const b of m.bundles) {
      if (skip && skip(b)) continue;
      let [ax, ay, ab] = at(m, b.a), [bx, by, bb] = at(m, b.b);
      if (bb && (!ab || bb.w > ab.w)) [bx, by] = edge(bb, ax, ay); // the wider box first
      if (ab) [ax, ay] = edge(ab, bx, by);
      if (bb && ab && bb.w <= ab.w) [bx, by] = edge(bb, ax, ay);
      const x = X(ax), y = Y(ay), u = X(bx), v = Y(by);
      if (Math.max(x, u) < 0 || Math.max(y, v) < 0 || Math.min(x, u) > s.w || Math.min(y, v) > s.h) continue;
      const state = b.up === b.n ? 0 : b.up ? 1 : 2;
      const width = Math.min(6, 0.6 + Math.log2(b.n) / 2), key = `${state} ${Math.round(width * 2) / 2}`;
      if (!kinds.has(key)) kinds.set(key, { state, width: Math.round(width * 2) / 2, p: new Path2D() });
      const p = kinds.get(key).p;
      p.moveTo(x, y);
      p.lineTo(u, v);
      shapes++;
    }
    for (const k of [...kinds.values()].sort((a, b) => a.state - b.state)) {
      g.globalAlpha = k.state ? 0.95 : many;
      g.strokeStyle = [color.edge, color.warn, color.bad][k.state];
      g.lineWidth = k.width + (k.state ? 0.6 : 0);
      g.setLineDash([[], [6, 3], [3, 4]][k.state]);
      g.stroke(k.p);
    }
    g.globalAlpha = 1;
    g.setLineDash([]);
  }

  function dots(list, side, fill) {
    const s = size(), d = Math.max(1.2, side * view.k), good = new Path2D(), other = new Path2D();
    for (const n of list) {
      const x = X(n.x), y = Y(n.y);
      if (x < -d || y < -d || x > s.w + d || y > s.h + d) continue;
      (n.state ? other : good).rect(x - d / 2, y - d / 2, d, d);
      shapes++;
    }
    g.fillStyle = fill;
    g.fill(good);
    g.strokeStyle = color.bad;
    g.lineWidth = Math.min(2, d / 3);
    g.stroke(other);
  }

  const font = px => `${px}px system-ui, sans-serif`;
  const fits = (text, width) => g.measureText(text).width <= width;

  // A name that is too long loses what is in brackets, then its start: numbers are at the end.
  function label(text, x, y, width, c) {
    g.fillStyle = c || color.ink;
    let t = text;
    if (!fits(t, width)) t = t.replace(/ \(.*/, '');
    for (let rest = t.slice(1); !fits(t, width); rest = rest.slice(1)) {
      if (rest.length < 3) return;
      t = `…${rest}`;
    }
    g.fillText(t, x, y);
  }

  function names(m) {
    if (5 * view.k < 16) return;
    const s = size();
    g.font = font(11);
    g.textAlign = 'center';
    for (const n of m.switches) if (X(n.x) > 0 && X(n.x) < s.w && Y(n.y) > 0 && Y(n.y) < s.h) label(n.name, X(n.x), Y(n.y) - 4.5 * view.k, 10 * view.k);
    if (view.k > 16) for (const n of m.hosts) if (X(n.x) > 0 && X(n.x) < s.w && Y(n.y) > 0 && Y(n.y) < s.h) label(n.name, X(n.x), Y(n.y) + 1.9 * view.k, 4.4 * view.k, color.soft);
    g.textAlign = 'left';
  }

  function problem(p, c) {
    const x = X(p.x), y = Y(p.y), u = X(p.x2), v = Y(p.y2);
    g.strokeStyle = g.fillStyle = c;
    g.lineWidth = 2;
    g.setLineDash(lines[p.state] || []);
    g.beginPath();
    g.moveTo(x, y);
    g.lineTo(u, v);
    g.stroke();
    g.setLineDash([]);
    const mx = (x + u) / 2, my = (y + v) / 2;
    g.beginPath();
    g.arc(mx, my, 7, 0, 7);
    g.fill();
    g.fillStyle = color.card;
    g.font = `bold ${font(12)}`;
    g.textAlign = 'center';
    g.textBaseline = 'middle';
    g.fillText(marks[p.state] || '!', mx, my + 0.5);
    g.textAlign = 'left';
    if (out.has(p.state)) {
      g.lineWidth = 4;
      g.strokeStyle = color.card;
      g.strokeText(p.state, mx + 10, my + 0.5);
      g.fillStyle = color.ink;
      g.fillText(p.state, mx + 10, my + 0.5);
    }
    g.textBaseline = 'alphabetic';
    shapes++;
  }

  // way draws a path with arrows; the way back is dashed.
  function way(w) {
    g.strokeStyle = g.fillStyle = w.back ? color.link : color.accent;
    g.lineWidth = 4;
    g.setLineDash(w.back ? [9, 6] : []);
    const shift = w.back ? 4 : -4;
    g.beginPath();
    w.points.forEach((p, i) => { const x = X(p.x) + shift, y = Y(p.y) + shift; if (i) g.lineTo(x, y); else g.moveTo(x, y); });
    g.stroke();
    g.setLineDash([]);
    w.points.forEach((p, i) => {
      const x = X(p.x) + shift, y = Y(p.y) + shift;
      g.beginPath();
      g.arc(x, y, 5, 0, 7);
      g.fill();
      if (!i) return;
      const q = w.points[i - 1], a = Math.atan2(p.y - q.y, p.x - q.x), hx = (x + X(q.x) + shift) / 2, hy = (y + Y(q.y) + shift) / 2;
      g.beginPath();
      g.moveTo(hx + 9 * Math.cos(a), hy + 9 * Math.sin(a));
      g.lineTo(hx + 8 * Math.cos(a + 2.5), hy + 8 * Math.sin(a + 2.5));
      g.lineTo(hx + 8 * Math.cos(a - 2.5), hy + 8 * Math.sin(a - 2.5));
      g.fill();
    });
    g.font = `bold ${font(12)}`;
    const end = w.points.at(-1), first = w.points[0];
    if (!w.back && first) g.fillText(first.name, X(first.x) + 9, Y(first.y) - 8);
    if (end && w.points.length > 1 && !w.back) g.fillText(`${end.name}${w.broken ? ' ×' : ''}`, X(end.x) + 9, Y(end.y) - 8);
  }

  function draw() {
    const s = size(), dpr = devicePixelRatio || 1;
    if (!base || !s.w) return;
    if (canvas.width !== Math.round(s.w * dpr) || canvas.height !== Math.round(s.h * dpr)) {
      canvas.width = Math.round(s.w * dpr);
      canvas.height = Math.round(s.h * dpr);
    }
    frames++;
    shapes = 0;
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    g.clearRect(0, 0, s.w, s.h);
    for (const b of base.groups) {
      const x = X(b.x), y = Y(b.y), w = b.w * view.k, h = b.h * view.k;
      if (x > s.w || y > s.h || x + w < 0 || y + h < 0) continue;
      g.fillStyle = color.bg;
      g.fillRect(x, y, w, h);
      // What was taken out of use on purpose is no problem: its group has another color, and dashes.
      const meant = b.id !== chosen && !b.problems && b.out_of_use;
      g.strokeStyle = b.id === chosen ? color.accent : b.problems ? color.bad : meant ? color.link : color.edge;
      g.lineWidth = b.id === chosen || b.problems || meant ? 2 : 1;
      g.setLineDash(meant ? lines.drained : []);
      g.strokeRect(x, y, w, h);
      g.setLineDash([]);
      shapes++;
    }
    const open = b => inside.has(base.groups[b]?.id);
    bundles(base, b => (b.a < base.groups.length && open(b.a) || b.b < base.groups.length && open(b.b)) && !base.switches.length);
    for (const [unit, m] of inside) {
      const own = m.groups.findIndex(x => x.id === unit), box = m.groups[own];
      if (!box || X(box.x) > s.w || Y(box.y) > s.h || X(box.x + box.w) < 0 || Y(box.y + box.h) < 0) continue;
      // Cables to other groups once, where both are open.
      bundles(m, b => base.switches.length && m.level < 3 || base.switches.length && b.a < m.groups.length);
    }
    dots(base.switches, 5, color.ink);
    for (const m of inside.values()) {
      dots(m.hosts, 2, color.good);
      dots(m.switches, 5, color.ink);
    }
    g.font = font(12);
    for (const b of base.groups) {
      const w = b.w * view.k, y = Y(b.y);
      const text = w > 34 && y > -14 && y < s.h ? b.name : '';
      if (text) label(text, X(b.x) + 4, y + Math.min(14, Math.max(11, 10 * view.k)), w - 6);
      if (w > 60 && !inside.has(b.id) && !base.switches.length && b.h * view.k > 34) {
        label(count(b.switches, 'switch'), X(b.x) + 4, y + 30, w - 6, color.soft);
        if (b.hosts && b.h * view.k > 50) label(count(b.hosts, 'host'), X(b.x) + 4, y + 45, w - 6, color.soft);
      }
    }
    names(base);
    for (const m of inside.values()) names(m);
    for (const p of [...base.problems].reverse()) problem(p, out.has(p.state) ? color.link : p.state === 'warning' || p.state === 'info' ? color.warn : color.bad);
    for (const p of base.changes || []) problem(p, p.state === 'new' ? color.good : color.accent);
    for (const w of ways) way(w);
  }

  // under is what is at a place of the canvas.
  function under(px, py) {
    if (!base) return null;
    const x = px / view.k + view.x, y = py / view.k + view.y, reach = Math.max(3, 6 / view.k);
    for (const p of [...base.problems, ...base.changes || []]) {
      if (Math.hypot((p.x + p.x2) / 2 - x, (p.y + p.y2) / 2 - y) < 9 / view.k) {
        return { problem: p, text: `${p.a_name}${p.a_port ? ` port ${p.a_port}` : ''}${p.b ? ` – ${p.b_name} port ${p.b_port}` : ''}\n${p.text}${p.since ? ` since ${new Date(p.since * 1000).toLocaleString('en-GB')}` : ''}` };
      }
    }
    for (const m of [...inside.values(), base]) {
      for (const n of [...m.switches, ...m.hosts]) {
        if (Math.abs(n.x - x) < reach && Math.abs(n.y - y) < reach) {
          return { node: n, text: `${n.name}\n${n.id}${n.hosts ? `\n${count(n.hosts, 'host')}${n.lost ? `, ${n.lost} without an active cable` : ''}` : ''}${n.state ? `\n${n.state}` : ''}` };
        }
      }
    }
    return box(px, py);
  }

  // box is the group at a place of the canvas.
  function box(px, py) {
    const x = px / view.k + view.x, y = py / view.k + view.y;
    const b = base.groups.find(c => x >= c.x && y >= c.y && x <= c.x + c.w && y <= c.y + c.h);
    return b ? { group: b, text: `${b.name}\n${count(b.switches, 'switch')}, ${count(b.hosts, 'host')}${b.hosts_lost ? `, ${b.hosts_lost} without an active cable` : ''}${b.problems ? `\n${count(b.problems, 'problem')}` : ''}${b.out_of_use ? `\n${count(b.out_of_use, 'link')} out of use` : ''}` } : null;
  }

  const open = id => {
    const b = base?.groups.find(c => c.id === id);
    if (b) fit(b.x - b.w * 0.15, b.y - b.h * 0.15, b.w * 1.3, b.h * 1.3);
  };
  const centre = () => {
    const s = size();
    return base && box(s.w / 2, s.h / 2);
  };

  let held = null;
  canvas.addEventListener('pointerdown', e => {
    held = { x: e.offsetX, y: e.offsetY, moved: false };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener('pointermove', e => {
    if (held) {
      const dx = held.x - e.offsetX, dy = held.y - e.offsetY;
      if (Math.abs(dx) + Math.abs(dy) > 3) held.moved = true;
      if (held.moved) { pan(dx, dy); held.x = e.offsetX; held.y = e.offsetY; }
      return;
    }
    const u = under(e.offsetX, e.offsetY);
    o.tip(u?.text || '', e.offsetX, e.offsetY);
  });
  canvas.addEventListener('pointerup', e => {
    const was = held;
    held = null;
    if (!was || was.moved) return;
    const u = under(e.offsetX, e.offsetY);
    if (u) o.pick(u);
  });
  canvas.addEventListener('pointerleave', () => o.tip('', 0, 0));
  canvas.addEventListener('wheel', e => { e.preventDefault(); zoom(Math.exp(-e.deltaY / 400), e.offsetX, e.offsetY); }, { passive: false });
  canvas.addEventListener('keydown', e => {
    const step = 60, key = { ArrowLeft: () => pan(-step, 0), ArrowRight: () => pan(step, 0), ArrowUp: () => pan(0, -step), ArrowDown: () => pan(0, step),
      '+': () => zoom(1.3), '=': () => zoom(1.3), '-': () => zoom(1 / 1.3), 0: whole, Home: whole, Enter: () => { const u = centre(); if (u) o.pick(u); } }[e.key];
    if (!key || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    key();
    const u = centre();
    if (u) o.say?.(u.text.split('\n')[0]);
  });
  const again = () => { colors(); redraw(); };
  const resized = new ResizeObserver(() => {
    const s = size();
    if (!view.k) whole();
    else if (part) fit(...part);
    else if (last) pan((last.w - s.w) / 2, (last.h - s.h) / 2); // the middle stays in the middle
    last = s;
    redraw();
  });
  resized.observe(canvas);
  addEventListener('theme', again);
  colors();

  return {
    // set shows another map; where one looks stays, unless the world is another one.
    set(m) {
      const other = !base || base.w !== m.w || base.h !== m.h;
      life++;
      inside.clear();
      base = m;
      if (other || !view.k) whole();
      draw();
      shown ||= performance.now();
      clearTimeout(due);
      due = setTimeout(look, 0);
    },
    // ways shows paths; to: look at them.
    ways(list, to) {
      ways = list;
      const all = list.flatMap(w => w.points);
      if (all.length && to) {
        const x = Math.min(...all.map(p => p.x)), y = Math.min(...all.map(p => p.y));
        fit(x - 20, y - 20, Math.max(...all.map(p => p.x)) - x + 40, Math.max(...all.map(p => p.y)) - y + 40);
      }
      draw();
    },
    choose(id) { chosen = id; if (id) open(id); else whole(); },
    zoom, pan, whole, draw,
    stats: () => ({ frames, shapes, shown, inside: inside.size, deep: [...inside.values()].filter(m => m.level === 3).length, level: base?.level }),
    close() {
      resized.disconnect();
      removeEventListener('theme', again);
      clearTimeout(due);
      cancelAnimationFrame(drawing);
    },
  };
}
