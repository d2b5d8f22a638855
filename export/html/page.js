'use strict';
const data = JSON.parse(document.getElementById('data').textContent);

// Numbers look as in acltrace's other texts.
const three = v => v.toFixed(v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2);
const count = n => n.toLocaleString('en-US');
const moment = ns => (ns / 1e9).toFixed(6) + 's';
function time(ns) {
  if (ns < 0) return '-' + time(-ns);
  if (ns < 1000) return ns + ' ns';
  for (const [limit, unit, name] of [[999500, 1e3, ' us'], [999500000, 1e6, ' ms'], [59950000000, 1e9, ' s']]) if (ns < limit) return three(ns / unit) + name;
  const s = Math.round(ns / 1e9), h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  return (h ? h + 'h' : '') + m + 'm' + s % 60 + 's';
}
function bytes(n) {
  if (n < 1024) return count(n) + ' B';
  for (const unit of ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']) if ((n /= 1024) < 999.5) return n.toFixed(n >= 99.95 ? 0 : 1).replace(/\.0$/, '') + ' ' + unit;
}
const formats = { text: v => v, count: count, ns: time, moment: moment, bytes: bytes, call: v => v < 0 ? '' : String(v), number: v => String(Math.round(v * 100) / 100) };

function make(name, props, ...children) {
  const e = Object.assign(document.createElement(name), props);
  e.append(...children.filter(c => c !== undefined && c !== null));
  return e;
}
const section = id => document.getElementById(id);
const color = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const pairs = list => make('dl', {}, ...list.flatMap(([k, v]) => [make('dt', {}, k), make('dd', {}, v)]));

const tip = document.getElementById('tip');
function hover(event, text) {
  tip.hidden = !text;
  tip.textContent = text || '';
  tip.style.left = Math.max(0, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4)) + 'px';
  tip.style.top = Math.max(0, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4)) + 'px';
}

// canvas returns a canvas that draws itself in CSS pixels, again whenever its size or the colors change.
function canvas(label, height, draw) {
  const c = make('canvas', { tabIndex: 0 });
  c.setAttribute('role', 'img');
  c.setAttribute('aria-label', label);
  c.redraw = () => {
    const w = c.clientWidth, h = height(), scale = devicePixelRatio || 1;
    if (!w) return;
    c.style.height = h + 'px';
    c.width = w * scale;
    c.height = h * scale;
    const g = c.getContext('2d');
    g.scale(scale, scale);
    g.font = '11px system-ui, sans-serif';
    g.textBaseline = 'middle';
    draw(g, w, h);
  };
  new ResizeObserver(c.redraw).observe(c);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', c.redraw);
  addEventListener('beforeprint', c.redraw);
  return c;
}

// fill fills a box with a color and a texture, so that color is not the only sign.
const textures = { waiting: '/', copying: '\\', other_calls: '.', recording: '-', unlike: 'x' };
function fill(g, name, x, y, w, h) {
  g.fillStyle = color(name);
  g.fillRect(x, y, w, h);
  if (!textures[name] || w < 3 || h < 3) return;
  g.save();
  g.beginPath();
  g.rect(x, y, w, h);
  g.clip();
  g.strokeStyle = color('back');
  g.lineWidth = 1;
  g.beginPath();
  for (let at = Math.floor((x - h) / 6) * 6; at < x + w; at += 6) {
    const t = textures[name];
    if (t === '/' || t === 'x') g.moveTo(at, y + h), g.lineTo(at + h, y);
    if (t === '\\' || t === 'x') g.moveTo(at, y), g.lineTo(at + h, y + h);
    if (t === '.') g.moveTo(at + .5, y), g.lineTo(at + .5, y + h);
  }
  if (textures[name] === '-') for (let at = y; at < y + h; at += 4) g.moveTo(x, at + .5), g.lineTo(x + w, at + .5);
  g.stroke();
  g.restore();
}

function legend(names) {
  return make('p', { className: 'legend' }, ...names.map(([name, text]) => {
    const c = make('canvas', { width: 12, height: 12 });
    queueMicrotask(() => fill(c.getContext('2d'), name, 0, 0, 12, 12));
    return make('span', {}, c, text);
  }));
}

// A strip shows the steps of a run as bars.
const file = data.about[0][1].replace(/ \(format .*/, '');
const strips = data.runs.map((run, index) => {
  const detail = make('div', { className: 'detail' });
  const longest = Math.max(1, ...run.bars.map(b => b[4])), top = run.p99_ns ? Math.min(longest, 3 * run.p99_ns) : longest;
  let at = -1;
  const strip = canvas(`${run.steps} steps of ${run.name}`, () => 110, (g, w, h) => {
    const wide = w / run.bars.length;
    run.bars.forEach((b, i) => {
      let y = h;
      const parts = b.length > 5 ? b.slice(5).map((ns, k) => [run.parts[k], ns]) : [['unlike', b[4]]];
      for (const [name, ns] of parts) {
        const tall = Math.min(ns / top * (h - 4), y);
        fill(g, name, i * wide, y -= tall, Math.max(wide - (wide > 4 ? 1 : 0), 1), tall);
      }
      if (b[4] > top) g.fillStyle = color('text'), g.textAlign = 'center', g.fillText('▲', (i + .5) * wide, 6);
      if (i === at) g.strokeStyle = color('text'), g.lineWidth = 2, g.strokeRect(i * wide, 1, Math.max(wide, 3), h - 2);
    });
    for (const [ns, name] of [[run.median_ns, 'median'], [run.p99_ns, 'p99']]) {
      if (!ns) continue;
      const y = Math.round(h - ns / top * (h - 4)) + .5;
      g.strokeStyle = g.fillStyle = color('text');
      g.setLineDash([4, 3]);
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(0, y);
      g.lineTo(w, y);
      g.stroke();
      g.setLineDash([]);
    }
  });
  const describe = b => `step ${b[2]}: ${time(b[4])}` + (b[0] === b[1] ? '' : `, the longest of steps ${b[0]} to ${b[1]}`);
  const select = i => {
    at = Math.max(0, Math.min(i, run.bars.length - 1));
    const b = run.bars[at], rows = [['step', describe(b)], ['begins at', moment(b[3])]];
    b.slice(5).forEach((ns, k) => ns && rows.push([run.parts[k].replace('_', ' '), `${time(ns)} (${Math.round(100 * ns / Math.max(b[4], 1))}%)`]));
    if (b.length <= 5) rows.push(['parts', 'not known: the step is unlike most']);
    const picture = index === 0 && pictures.find(p => p.data.step === b[2]);
    const name = index === 0 ? file : run.name;
    rows.push(picture ? ['lanes', make('button', { onclick: () => picture.show() }, 'show')] : ['lanes', make('code', {}, `acltrace export html --step ${b[2]} ${name}`)]);
    rows.push(['calls', make('code', {}, `acltrace cat --step ${b[2]} ${name}`)]);
    detail.replaceChildren(pairs(rows));
    strip.redraw();
  };
  const over = e => Math.floor(e.offsetX / strip.clientWidth * run.bars.length);
  strip.onmousemove = e => hover(e, describe(run.bars[Math.max(0, Math.min(over(e), run.bars.length - 1))]));
  strip.onmouseleave = e => hover(e);
  strip.onclick = e => select(over(e));
  strip.onkeydown = e => {
    const by = { ArrowLeft: -1, a: -1, ArrowRight: 1, d: 1 }[e.key];
    if (by) select(at + by), e.preventDefault();
  };
  const add = (...e) => section('steps').append(...e);
  if (data.runs.length > 1) add(make('h3', {}, index === 0 ? 'this run: ' + file : 'compared with ' + run.name));
  if (run.bars.length === 0) add(make('p', {}, 'No steps: ' + (run.why || 'the trace has none') + '.'));
  else {
    add(make('p', { className: 'note' }, `${count(run.steps)} steps, ${run.source}; median ${time(run.median_ns)}, p99 ${time(run.p99_ns)} (dashed), longest ${time(longest)}` + (longest > top ? '; ▲ is higher than the strip' : '')), strip,
      legend([...run.parts.map(p => [p, p.replace('_', ' ')]), ['unlike', 'unlike most steps']]), detail);
  }
  return { run, select: step => { const i = run.bars.findIndex(b => b[0] <= step && step <= b[1]); if (i >= 0) select(i), strip.scrollIntoView({ block: 'center' }); } };
});

// A picture shows rows of slices over time.
const CRITICAL = 1, ATMOST = 2, FAILED = 4, OPEN = 8, HIGH = 16, LEFT = 150;
const pictures = data.pictures.map(p => {
  let from = p.from, to = Math.max(p.to, p.from + 1), chosen = null, y = 18;
  const rows = p.rows.map(r => {
    const deep = 1 + Math.max(0, ...r.slices.map(s => s[2])), row = { r, y, deep: Math.min(deep, 6) };
    y += row.deep * HIGH + 4;
    return row;
  });
  const tall = Math.max(y, 40), detail = make('div', { className: 'detail' });
  const hue = n => { let h = 7; for (const c of p.names[n]) h = (h * 31 + c.codePointAt(0)) % 360; return h; };
  const view = canvas(`${p.title}, ${p.rows.length} rows; a table of its slices follows`, () => tall, (g, w, h) => {
    const scale = (w - LEFT) / (to - from), dark = matchMedia('(prefers-color-scheme: dark)').matches;
    g.fillStyle = color('dim');
    for (let i = 0; i <= 4; i++) g.textAlign = i < 4 ? 'left' : 'right', g.fillText((i ? '+' : '') + time(Math.round((to - from) * i / 4 + (i ? 0 : from - p.from))), LEFT + (w - LEFT) * i / 4, 7);
    g.textAlign = 'left';
    for (const row of rows) {
      g.fillStyle = color('text');
      g.save();
      g.beginPath();
      g.rect(0, row.y, LEFT - 6, row.deep * HIGH + 2);
      g.clip();
      g.fillText(row.r.name, 0, row.y + HIGH / 2);
      g.restore();
      g.strokeStyle = color('line');
      g.lineWidth = 1;
      g.strokeRect(LEFT, row.y - 1.5, w - LEFT, row.deep * HIGH + 2);
      for (const s of row.r.slices) {
        const x0 = Math.max(LEFT, LEFT + (s[0] - from) * scale), x1 = Math.min(w, LEFT + (s[0] + s[1] - from) * scale), wide = Math.max(x1 - x0, 1), sy = row.y + Math.min(s[2], row.deep - 1) * HIGH;
        if (x1 < LEFT || x0 > w) continue;
        g.fillStyle = `hsl(${hue(s[3])} ${dark ? '35% 38%' : '55% 80%'})`;
        g.fillRect(x0, sy, wide, HIGH - 2);
        g.setLineDash(s[4] & ATMOST ? [3, 2] : []);
        if (s === chosen || s[4] & (CRITICAL | FAILED | ATMOST | OPEN)) {
          g.strokeStyle = s[4] & FAILED ? color('mark') : s[4] & CRITICAL || s === chosen ? color('text') : color('dim');
          g.lineWidth = s === chosen ? 3 : s[4] & CRITICAL ? 1.5 : 1;
          if (wide > 2 || s[4] & FAILED) g.strokeRect(x0 + .5, sy + .5, Math.max(wide - 1, 1), HIGH - 3);
        }
        g.setLineDash([]);
        if (wide > 26) {
          g.save();
          g.beginPath();
          g.rect(x0, sy, wide - 2, HIGH);
          g.clip();
          g.fillStyle = color('text');
          g.fillText((s[4] & FAILED ? '! ' : '') + (s[6] > 1 ? s[6] + ' × ' : '') + p.names[s[3]], x0 + 3, sy + HIGH / 2 - 1);
          g.restore();
        }
      }
    }
  });
  const text = s => `${s[6] > 1 ? count(s[6]) + ' slices, the longest is ' : ''}${p.names[s[3]]}: ${s[4] & ATMOST ? 'at most ' : ''}${time(s[1])}${s[4] & FAILED ? ', failed' : ''}${s[4] & OPEN ? ', did not return' : ''}`;
  const find = e => {
    const at = from + (e.offsetX - LEFT) / (view.clientWidth - LEFT) * (to - from), slack = 2 / (view.clientWidth - LEFT) * (to - from);
    const row = rows.find(r => e.offsetY >= r.y && e.offsetY < r.y + r.deep * HIGH);
    if (!row || e.offsetX < LEFT) return null;
    const depth = Math.floor((e.offsetY - row.y) / HIGH);
    let best = null;
    for (const s of row.r.slices) if (Math.min(s[2], row.deep - 1) === depth && s[0] - slack <= at && at <= s[0] + s[1] + slack && (!best || s[1] < best[1])) best = s;
    return best;
  };
  const choose = s => {
    chosen = s;
    view.redraw();
    if (!s) return detail.replaceChildren();
    const list = [['slice', text(s)], ['from', `${moment(s[0])} (+${time(s[0] - p.from)})`]];
    if (s[4] & CRITICAL) list.push(['critical path', 'yes']);
    for (let i = 7; i < s.length; i += 2) list.push([p.names[s[i]], typeof s[i + 1] === 'number' ? p.names[s[i + 1]] : s[i + 1]]);
    if (s[5] >= 0) list.push(['command', make('code', {}, `acltrace cat --call ${s[5]} ${file}`)]);
    detail.replaceChildren(pairs(list));
  };
  const move = (factor, center, shift) => {
    const span = Math.max(Math.min((to - from) * factor, p.to - p.from), 20), mid = center === undefined ? (from + to) / 2 : center;
    from = Math.max(p.from, Math.min(mid - (mid - from) * span / (to - from) + shift * span, p.to - span));
    to = from + span;
    view.redraw();
  };
  view.onmousemove = e => { const s = find(e); hover(e, s && text(s)); };
  view.onmouseleave = e => hover(e);
  view.onclick = e => choose(find(e));
  view.addEventListener('wheel', e => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    move(e.deltaY > 0 ? 1.25 : .8, from + (e.offsetX - LEFT) / (view.clientWidth - LEFT) * (to - from), 0);
  }, { passive: false });
  view.onkeydown = e => {
    const does = { w: [.7, 0], s: [1 / .7, 0], a: [1, -.15], d: [1, .15], ArrowLeft: [1, -.15], ArrowRight: [1, .15], '0': [Infinity, 0] }[e.key];
    if (does) move(does[0], undefined, does[1]), e.preventDefault();
  };
  const name = p.title + (p.step >= 0 ? ': step ' + p.step : '') + ', ' + time(p.to - p.from);
  const notes = [];
  if (p.joined) notes.push('Short neighboring slices are drawn as one. acltrace export perfetto has all.');
  if (p.left_out) notes.push(count(p.left_out) + ' rows are left out.');
  const all = make('details', {}, make('summary', { className: 'note' }, 'as a table'));
  all.ontoggle = () => all.open && all.childElementCount === 1 && all.append(table({
    title: name, left_out: 0, columns: [['row', 'text'], ['slice', 'text'], ['from', 'moment'], ['time', 'ns'], ['number', 'count'], ['call', 'call']].map(([name, kind]) => ({ name, kind })),
    rows: p.rows.flatMap(r => r.slices.map(s => [r.name, p.names[s[3]], s[0], s[1], s[6], s[5]])),
  }));
  const box = make('div', {}, make('h3', {}, name), p.critical.length ? make('p', { className: 'note' }, 'Critical path (outlined): ' + p.critical.join('; ')) : null,
    ...notes.map(n => make('p', { className: 'note' }, n)), view, detail, all);
  section('pictures').querySelector('.side').append(box);
  return {
    data: p, show: () => { box.scrollIntoView({ block: 'center' }); view.focus({ preventScroll: true }); },
    call: n => { for (const r of p.rows) for (const s of r.slices) if (s[5] === n && s[6] === 1) return () => { choose(s); box.scrollIntoView({ block: 'center' }); }; },
  };
});
if (!pictures.length) section('pictures').hidden = true;

function table(t) {
  const body = make('tbody'), heads = t.columns.map(c => make('th', { className: c.kind === 'text' ? '' : 'number', tabIndex: 0, scope: 'col' }, c.name));
  const fillBody = rows => body.replaceChildren(...rows.map(r => make('tr', {}, ...r.map((v, i) => {
    const kind = t.columns[i].kind, cell = make('td', { className: kind === 'text' ? 'text' : 'number' }, v === null ? '' : formats[kind](v));
    if (v !== null) cell.dataset.value = v;
    if (kind === 'text') cell.title = v, ['slower', 'new'].includes(v) && cell.classList.add(v);
    return cell;
  }))));
  heads.forEach((head, i) => {
    const sort = () => {
      const down = head.getAttribute('aria-sort') !== 'descending', kind = t.columns[i].kind;
      heads.forEach(h => h.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const order = (a, b) => kind === 'text' ? String(b[i]).localeCompare(String(a[i])) : (b[i] ?? -Infinity) - (a[i] ?? -Infinity);
      fillBody(t.rows.toSorted((a, b) => down ? order(a, b) : order(b, a)));
    };
    head.onclick = sort;
    head.onkeydown = e => e.key === 'Enter' && sort();
  });
  fillBody(t.rows);
  return make('div', {}, make('div', { className: 'scroll' }, make('table', {}, make('caption', { hidden: true }, t.title), make('thead', {}, make('tr', {}, ...heads)), body)),
    t.left_out ? make('p', { className: 'note' }, count(t.left_out) + ' more are left out.') : null);
}
for (const t of data.tables) if (t.rows && t.rows.length) section('tables').append(make('h3', {}, t.title), table(t));

section('about').append(...pairs(data.about).childNodes);
for (const f of data.findings) {
  const item = make('li', {}, (f.cost ? f.cost + ': ' : '') + f.text, make('br'), make('code', {}, f.command),
    make('button', { onclick: e => { navigator.clipboard && navigator.clipboard.writeText(f.command); e.target.textContent = 'copied'; } }, 'copy'));
  if (f.step !== undefined) item.append(make('button', { onclick: () => strips[0].select(f.step) }, 'step ' + f.step));
  const show = f.call !== undefined && pictures.map(p => p.call(f.call)).find(Boolean);
  if (show) item.append(make('button', { onclick: show }, 'call ' + f.call));
  section('findings').querySelector('ol').append(item);
}
if (!data.findings.length) section('findings').append(make('p', {}, 'None.'));

const m = data.memory;
if (!m.curves.length) section('memory').hidden = true;
else {
  const points = m.curves.flatMap(c => c.points), end = Math.max(...points.map(p => p[0]), 1), top = Math.max(...points.map(p => p[1]), 1);
  const dashes = [[], [6, 3], [2, 2], [8, 2, 2, 2]];
  const curves = canvas(`device memory over time; the peak is ${bytes(m.peak_bytes)}`, () => 140, (g, w, h) => m.curves.forEach((c, i) => {
    g.strokeStyle = g.fillStyle = color(['launching', 'copying', 'own_time', 'other_calls'][i % 4]);
    g.setLineDash(dashes[i % 4]);
    g.lineWidth = 1.5;
    g.beginPath();
    let y = h - 2;
    g.moveTo(0, y);
    for (const [at, n] of c.points) g.lineTo(at / end * w, y), g.lineTo(at / end * w, y = h - 2 - n / top * (h - 16));
    g.lineTo(w, y);
    g.stroke();
    g.setLineDash([]);
    if (i < 4) g.fillText(c.name, 6 + i * 200, 7);
  }));
  curves.onmousemove = e => {
    const at = e.offsetX / curves.clientWidth * end;
    hover(e, moment(at) + m.curves.map(c => '\n' + c.name + ': ' + bytes((c.points.findLast(p => p[0] <= at) || [0, 0])[1])).join(''));
  };
  curves.onmouseleave = e => hover(e);
  section('memory').append(make('p', { className: 'note' }, `Peak ${bytes(m.peak_bytes)} at ${moment(m.peak_at_ns)}.` + (m.left_out ? ' Some devices are left out.' : '')), curves);
  if (m.owners.rows && m.owners.rows.length) section('memory').append(make('h3', {}, m.owners.title), table(m.owners));
}
document.body.dataset.ready = 'yes';
