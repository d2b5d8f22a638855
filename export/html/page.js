'use strict';
const data = JSON.parse(document.getElementById('data').textContent), stats = data.runs[0].stats;

// Numbers look as in acltrace's other texts.
const three = v => v.toFixed(v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2), count = n => n.toLocaleString('en-US', { maximumFractionDigits: 2 });
const moment = ns => (ns / 1e9).toFixed(6) + 's';
function time(ns) {
  if (ns < 0) return '-' + time(-ns);
  if (ns < 1000) return Math.round(ns) + ' ns';
  for (const [limit, unit, name] of [[999500, 1e3, ' us'], [999500000, 1e6, ' ms'], [59950000000, 1e9, ' s']]) if (ns < limit) return three(ns / unit) + name;
  const s = Math.round(ns / 1e9), h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  return (h ? h + 'h' : '') + m + 'm' + s % 60 + 's';
}
function bytes(n) {
  if (n < 1024) return count(n) + ' B';
  for (const unit of ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']) if ((n /= 1024) < 999.5) return n.toFixed(n >= 99.95 ? 0 : 1).replace(/\.0$/, '') + ' ' + unit;
}
// format shows a value by the end of its key.
const format = (key, v) => typeof v === 'string' ? v : /(^|_)(at|t)_ns$/.test(key) ? moment(v) : /ns$/i.test(key) ? time(v) : /bytes$|^each$/.test(key) ? bytes(v) : /^(call|step|process)$/.test(key) ? (v < 0 ? '' : String(v)) : count(v);

function make(name, props, ...children) {
  const e = Object.assign(document.createElement(name), props);
  e.append(...children.flat().filter(c => c !== undefined && c !== null));
  return e;
}
const section = id => document.getElementById(id), note = text => make('p', { className: 'note' }, text);
const color = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const pairs = list => make('dl', {}, list.flatMap(([k, v]) => [make('dt', {}, k), make('dd', {}, v)]));
const clamp = (v, from, to) => Math.max(from, Math.min(v, to));

const tip = section('tip');
function hover(event, text) {
  tip.hidden = !text;
  tip.textContent = text || '';
  tip.style.left = clamp(event.clientX + 12, 0, innerWidth - tip.offsetWidth - 4) + 'px';
  tip.style.top = clamp(event.clientY + 14, 0, innerHeight - tip.offsetHeight - 4) + 'px';
}

// table shows objects. The columns are KEY:HEADING, separated by semicolons; those without a value are left out.
function table(title, rows, spec, more) {
  const value = (row, key) => /^(device_|measured)/.test(key) && !row.measured ? null : row[key] ?? null;
  const columns = spec.split(';').map(c => c.split(':')).filter(([key]) => rows.some(r => value(r, key) !== null));
  const body = make('tbody'), text = columns.map(([key]) => rows.some(r => typeof value(r, key) === 'string'));
  const show = rows => body.replaceChildren(...rows.map(r => make('tr', {}, columns.map(([key], i) => {
    const v = value(r, key), cell = make('td', { className: text[i] ? 'text' : 'number' }, v === null ? '' : format(key, v));
    if (v !== null) cell.dataset.value = v;
    if (text[i]) cell.title = v ?? '', key === 'verdict' && v && cell.classList.add(v);
    return cell;
  }))));
  const heads = columns.map(([key, heading], i) => {
    const head = make('th', { className: text[i] ? '' : 'number', tabIndex: 0, scope: 'col' }, heading);
    const order = text[i] ? (a, b) => String(value(b, key) ?? '').localeCompare(String(value(a, key) ?? '')) : (a, b) => (value(b, key) ?? -Infinity) - (value(a, key) ?? -Infinity) || 0;
    head.onclick = () => {
      const down = head.getAttribute('aria-sort') !== 'descending';
      heads.forEach(h => h.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      show(rows.toSorted((a, b) => down ? order(a, b) : order(b, a)));
    };
    head.onkeydown = e => e.key === 'Enter' && head.onclick();
    return head;
  });
  show(rows);
  return make('div', {}, make('div', { className: 'scroll', tabIndex: 0 }, make('table', {}, make('caption', { hidden: true }, title), make('thead', {}, make('tr', {}, heads)), body)), more ? note(count(more) + ' more are left out.') : null);
}
// folded is a table that is made when it is opened.
function folded(title, rows, spec) {
  const all = make('details', {}, make('summary', { className: 'note' }, 'as a table'));
  all.ontoggle = () => all.open && all.childElementCount === 1 && all.append(table(title, rows(), spec));
  return all;
}
const add = (id, title, rows, spec, more) => rows?.length && section(id).append(make('h3', {}, title), table(title, rows, spec, more));

// recolored calls draw whenever the colors change.
const recolored = draw => ['(prefers-color-scheme: dark)', 'print'].forEach(query => matchMedia(query).addEventListener('change', draw));

// canvas returns a canvas that draws itself in CSS pixels, again whenever its size or the colors change.
function canvas(label, height, draw) {
  const c = make('canvas', { tabIndex: 0, role: 'img', ariaLabel: label, onmouseleave: e => hover(e) });
  c.redraw = () => {
    const w = c.clientWidth, scale = devicePixelRatio || 1, g = c.getContext('2d');
    if (!w) return;
    c.style.height = height + 'px';
    c.width = w * scale;
    c.height = height * scale;
    g.scale(scale, scale);
    g.font = '11px system-ui, sans-serif';
    g.textBaseline = 'middle';
    draw(g, w, height);
  };
  new ResizeObserver(c.redraw).observe(c);
  recolored(c.redraw);
  return c;
}
// inside draws within a rectangle.
function inside(g, x, y, w, h, draw) {
  g.save();
  g.beginPath();
  g.rect(x, y, w, h);
  g.clip();
  draw();
  g.restore();
}
function line(g, points) {
  g.beginPath();
  points.forEach(([x, y], i) => i ? g.lineTo(x, y) : g.moveTo(x, y));
  g.stroke();
}

// The parts of a step. Each has a texture, which is visible without colors.
const PARTS = { waiting: '/', launching: '', copying: '\\', other: '.', recording: '-', own: '', unlike: 'x' };
const WORDS = { other: 'other calls', own: 'own time', unlike: 'unlike most steps' }, word = p => WORDS[p] || p;
const names = Object.keys(PARTS).slice(0, 6);
function fill(g, name, x, y, w, h) {
  g.fillStyle = color(name);
  g.fillRect(x, y, w, h);
  const t = PARTS[name];
  if (!t || w < 3 || h < 3) return;
  inside(g, x, y, w, h, () => {
    g.strokeStyle = color('back');
    g.lineWidth = 1;
    for (let at = Math.floor((x - h) / 6) * 6; at < x + w; at += 6) {
      if (t === '/' || t === 'x') line(g, [[at, y + h], [at + h, y]]);
      if (t === '\\' || t === 'x') line(g, [[at, y], [at + h, y + h]]);
      if (t === '.') line(g, [[at + .5, y], [at + .5, y + h]]);
    }
    if (t === '-') for (let at = y; at < y + h; at += 4) line(g, [[x, at + .5], [x + w, at + .5]]);
  });
}
const legend = () => make('p', { className: 'legend' }, Object.keys(PARTS).map(name => {
  const c = make('canvas', { width: 12, height: 12 }), draw = () => fill(c.getContext('2d'), name, 0, 0, 12, 12);
  queueMicrotask(draw);
  recolored(draw);
  return make('span', {}, c, word(name));
}));

// A strip shows bars of parts: [ns, parts or nothing, text]. Lines are heights with a name.
function strip(label, bars, top, lines, rows) {
  let at = -1;
  const detail = make('div', { className: 'detail', role: 'status' });
  const c = canvas(label, 110, (g, w, h) => {
    const wide = w / bars.length;
    bars.forEach((b, i) => {
      let y = h;
      for (const [k, ns] of (b.parts.length ? b.parts : [b.ns]).entries()) {
        const tall = Math.min(ns / top * (h - 4), y);
        fill(g, b.parts.length ? names[k] : 'unlike', i * wide, y -= tall, Math.max(wide - (wide > 4 ? 1 : 0), 1), tall);
      }
      g.fillStyle = g.strokeStyle = color('text');
      g.textAlign = 'center';
      if (b.ns > top) g.fillText('▲', (i + .5) * wide, 6);
      g.lineWidth = 2;
      if (i === at) g.strokeRect(i * wide, 1, Math.max(wide, 3), h - 2);
    });
    g.setLineDash([4, 3]);
    g.lineWidth = 1;
    g.textAlign = 'left';
    for (const ns of lines.filter(Boolean)) line(g, [0, w].map(x => [x, Math.round(h - ns / top * (h - 4)) + .5]));
  });
  c.select = i => {
    const b = bars[at = clamp(i, 0, bars.length - 1)];
    detail.replaceChildren(pairs([...rows(b), ...b.parts.map((ns, k) => [word(names[k]), `${time(ns)} (${Math.round(100 * ns / Math.max(b.ns, 1))}%)`]).filter((_, k) => b.parts[k]),
      ...(b.parts.length ? [] : [['parts', 'not known: the step is unlike most']])]));
    c.redraw();
  };
  const over = e => clamp(Math.floor(e.offsetX / c.clientWidth * bars.length), 0, bars.length - 1);
  c.onmousemove = e => hover(e, bars[over(e)].text);
  c.onclick = e => c.select(over(e));
  c.onkeydown = e => {
    const by = { ArrowLeft: -1, a: -1, ArrowRight: 1, d: 1 }[e.key];
    if (by) c.select(at + by), e.preventDefault();
  };
  const columns = 'text:bar;ns:time;' + names.map(n => n + '_ns:' + word(n)).join(';');
  c.box = make('div', {}, c, legend(), detail, folded(label, () => bars.map(b => ({ text: b.text, ns: b.ns, ...Object.fromEntries(b.parts.map((ns, k) => [names[k] + '_ns', ns])) })), columns));
  return c;
}

const longest = Math.max(1, ...data.runs.flatMap(r => r.bars.map(b => b[4]))), top99 = 3 * Math.max(...data.runs.map(r => r.stats.steps.p99_ns || 0)), scale = top99 ? Math.min(longest, top99) : longest;
const runs = data.runs.map((run, index) => {
  const { count: n, source, p50_ns: median, p99_ns: p99 } = run.stats.steps;
  if (data.runs.length > 1) section('steps').append(make('h3', {}, index ? 'compared with ' + run.name : 'this run: ' + run.name));
  if (!run.bars.length) return section('steps').append(make('p', {}, 'No steps: ' + (run.why || 'the trace has none') + '.'));
  const bars = run.bars.map(([first, last, step, from, ns, ...parts]) => ({ first, last, step, from, ns, parts, text: `step ${step}: ${time(ns)}` + (first === last ? '' : `, the longest of steps ${first} to ${last}`) }));
  const s = strip(`${n} steps of ${run.name}`, bars, scale, [median, p99], b => {
    const picture = !index && pictures.find(p => p.data.step === b.step);
    return [['step', b.text], ['begins at', moment(b.from)], ['lanes', picture ? make('button', { onclick: picture.show }, 'show') : make('code', {}, `acltrace export html --step ${b.step} ${run.name}`)],
      ['calls', make('code', {}, `acltrace cat --step ${b.step} ${run.name}`)]];
  });
  section('steps').append(note(`${count(n)} steps, ${source}; median ${time(median)}, p99 ${time(p99)} (dashed), longest ${time(Math.max(...bars.map(b => b.ns)))}` + (longest > scale ? '; ▲ is higher than the strip' : '')), s.box);
  return { show: is => { const i = bars.findIndex(is); if (i >= 0) return () => { s.select(i); s.scrollIntoView({ block: 'center' }); }; } };
});

// A picture shows rows of slices over time.
const CRITICAL = 1, ATMOST = 2, FAILED = 4, OPEN = 8, INSIDE = 16, HIGH = 16, LEFT = 150;
const pictures = data.pictures.map(p => {
  let from = p.from, to = Math.max(p.to, p.from + 1), chosen = null, y = 18, of = '';
  const several = new Set(p.rows.map(r => r.of)).size > 1, rows = p.rows.map(r => {
    const row = { r, head: several && r.of !== of ? of = r.of : '', deep: clamp(1 + Math.max(0, ...r.slices.map(s => s[2])), 1, 6) };
    row.y = y += row.head ? HIGH : 0;
    y += row.deep * HIGH + 4;
    return row;
  });
  const hues = p.names.map(n => { let h = 7; for (const c of n) h = (h * 31 + c.codePointAt(0)) % 360; return h; });
  const title = p.title + (p.step >= 0 ? ': step ' + p.step : '') + ', ' + time(p.to - p.from), detail = make('div', { className: 'detail', role: 'status' });
  const view = canvas(`${title}, ${p.rows.length} rows; a table of its slices follows`, Math.max(y, 40), (g, w) => {
    const scale = (w - LEFT) / (to - from), tones = color('slice');
    g.fillStyle = color('dim');
    for (let i = 0; i <= 4; i++) g.textAlign = i < 4 ? 'left' : 'right', g.fillText('+' + time(Math.round((to - from) * i / 4 + from - p.from)), LEFT + (w - LEFT) * i / 4, 7);
    g.textAlign = 'left';
    for (const row of rows) {
      g.fillStyle = color('text');
      if (row.head) g.fillText(row.head, 0, row.y - HIGH / 2);
      inside(g, 0, row.y, LEFT - 6, row.deep * HIGH + 2, () => g.fillText(row.r.name, 0, row.y + HIGH / 2));
      g.strokeStyle = color('line');
      g.lineWidth = 1;
      g.strokeRect(LEFT, row.y - 1.5, w - LEFT, row.deep * HIGH + 2);
      for (const s of row.r.slices) {
        const x0 = Math.max(LEFT, LEFT + (s[0] - from) * scale), x1 = Math.min(w, LEFT + (s[0] + s[1] - from) * scale), wide = Math.max(x1 - x0, 1), sy = row.y + Math.min(s[2], row.deep - 1) * HIGH, f = s[4];
        if (x1 < LEFT || x0 > w) continue;
        g.fillStyle = `hsl(${hues[s[3]]} ${tones})`;
        g.fillRect(x0, sy, wide, HIGH - 2);
        g.setLineDash(f & (ATMOST | INSIDE) ? [3, 2] : []);
        g.strokeStyle = color(f & FAILED ? 'mark' : f & CRITICAL || s === chosen ? 'text' : 'dim');
        g.lineWidth = s === chosen ? 3 : f & CRITICAL ? 1.5 : 1;
        if ((s === chosen || f) && (wide > 2 || f & FAILED)) g.strokeRect(x0 + .5, sy + .5, Math.max(wide - 1, 1), HIGH - 3);
        g.setLineDash([]);
        g.fillStyle = color('text');
        if (wide > 26) inside(g, x0, sy, wide - 2, HIGH, () => g.fillText((f & FAILED ? '! ' : f & OPEN ? '… ' : '') + (s[6] > 1 ? s[6] + ' × ' : '') + p.names[s[3]], x0 + 3, sy + HIGH / 2 - 1));
      }
    }
  });
  const text = s => `${s[6] > 1 ? count(s[6]) + ' slices, the longest is ' : ''}${p.names[s[3]]}: ` + (s[4] & INSIDE ? 'a task of the graph; its order is known, its time is not' : (s[4] & ATMOST ? 'at most ' : '') + time(s[1])) + (s[4] & FAILED ? ', failed' : '') + (s[4] & OPEN ? ', did not return' : '');
  const args = s => { const list = []; for (let i = 7; i < s.length; i += 2) list.push([p.names[s[i]], typeof s[i + 1] === 'number' ? p.names[s[i + 1]] : s[i + 1]]); return list; };
  const find = e => {
    const unit = (to - from) / (view.clientWidth - LEFT), at = from + (e.offsetX - LEFT) * unit, row = rows.find(r => e.offsetY >= r.y && e.offsetY < r.y + r.deep * HIGH);
    if (!row || e.offsetX < LEFT) return null;
    const depth = Math.floor((e.offsetY - row.y) / HIGH);
    return row.r.slices.filter(s => Math.min(s[2], row.deep - 1) === depth && s[0] - 2 * unit <= at && at <= s[0] + s[1] + 2 * unit).reduce((a, b) => a && a[1] <= b[1] ? a : b, null);
  };
  const choose = s => {
    chosen = s;
    view.redraw();
    if (!s) return detail.replaceChildren();
    const row = p.rows.find(r => r.slices.includes(s)), list = [['slice', text(s)], ['on', row.name + ' of ' + row.of], ['from', `${moment(s[0])} (${s[0] < p.from ? '' : '+'}${time(s[0] - p.from)})`]];
    for (const o of row.slices) if (o[2] < s[2] && o[0] <= s[0] && o[0] + o[1] >= s[0] + s[1]) list.push(['within', text(o)]);
    if (s[4] & CRITICAL) list.push(['critical path', 'yes']);
    if (s[5] >= 0 && s[6] === 1) for (const r of p.rows) for (const o of r.slices) if (r !== row && o[5] === s[5] && o[6] === 1) list.push([r.name, text(o)]);
    detail.replaceChildren(pairs([...list, ...args(s), ...(s[5] >= 0 ? [['command', make('code', {}, `acltrace cat --call ${s[5]} ${data.file}`)]] : [])]));
  };
  const move = (factor, center, shift) => {
    const span = clamp((to - from) * factor, Math.min(20, p.to - p.from), Math.max(p.to - p.from, 1));
    from = clamp(center - (center - from) * span / (to - from) + shift * span, p.from, p.to - span);
    to = from + span;
    view.redraw();
  };
  view.onmousemove = e => { const s = find(e); hover(e, s && [text(s), ...args(s).map(a => a.join(': '))].join('\n')); };
  view.onclick = e => choose(find(e));
  view.addEventListener('wheel', e => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    move(e.deltaY > 0 ? 1.25 : .8, from + (e.offsetX - LEFT) / (view.clientWidth - LEFT) * (to - from), 0);
  }, { passive: false });
  const ordered = p.rows.flatMap(r => r.slices);
  view.onkeydown = e => {
    const by = { w: [.7, 0], s: [1 / .7, 0], a: [1, -.15], d: [1, .15], ArrowLeft: [1, -.15], ArrowRight: [1, .15], '0': [Infinity, 0] }[e.key], next = { ArrowUp: -1, ArrowDown: 1 }[e.key];
    if (by) move(by[0], (from + to) / 2, by[1]), e.preventDefault();
    if (next && ordered.length) choose(ordered[clamp(ordered.indexOf(chosen) + next, 0, ordered.length - 1)]), e.preventDefault();
  };
  const show = () => { box.scrollIntoView({ block: 'center' }); view.focus({ preventScroll: true }); };
  const box = make('div', {}, make('h3', {}, title), p.critical.length ? make('p', {}, 'Critical path (outlined): ' + p.critical.join('; ')) : null,
    p.joined ? make('p', {}, 'Short neighboring slices are drawn as one. acltrace export perfetto has all.') : null, p.left_out ? make('p', {}, count(p.left_out) + ' rows are left out.') : null, view, detail,
    folded(title, () => p.rows.flatMap(r => r.slices.map(s => ({ row: several ? r.name + ' of ' + r.of : r.name, slice: text(s), at_ns: s[0], ns: s[1], n: s[6], call: s[5] }))), 'row:row;slice:slice;at_ns:from;ns:time;n:number;call:call'));
  section('pictures').querySelector('.side').append(box);
  return { data: p, show, call: n => { for (const s of ordered) if (s[5] === n && s[6] === 1) return () => { choose(s); show(); }; } };
});
section('pictures').hidden = !pictures.length;
if (data.not_drawn) section('pictures').append(make('p', {}, count(data.not_drawn) + ' more chosen steps are not drawn.'));

// The tables show the figures of stats, with the verdicts of diff.
const changes = data.diff ? [...data.diff.parts, ...data.diff.changes].map(c => ({ kind: c.kind, name: c.name, verdict: c.verdict, before_ns: c.a.median_ns, now_ns: c.b.median_ns, before: c.a.per_step, now: c.b.per_step })) : [];
if (data.diff) for (const verdict of ['new', 'gone']) changes.push(...data.diff[verdict].map(c => ({ kind: c.kind, name: c.name, verdict })));
const judged = (kind, rows, key) => (rows || []).map(r => ({ ...r, [key]: r.demangled || r[key], ...(({ verdict, before_ns }) => ({ verdict, before_ns }))(changes.find(c => c.kind === kind && c.name === r[key].replace(/^(copy|graph:?) /, '')) || {}) }));
const TIMES = 'host_ns:host time;device_ns:time on the device;device_p50_ns:median;device_p99_ns:p99;measured:measured;before_ns:median before;verdict:verdict';
add('tables', 'Changes', changes, 'kind:kind;name:name;verdict:verdict;before_ns:before;now_ns:now;before:a step before;now:a step now');
add('tables', 'Kernels', judged('kernel', stats.kernels, 'name'), 'name:kernel;count:launches;in_graphs:in graphs;' + TIMES, stats.kernels_left_out);
add('tables', 'Graphs', judged('graph', stats.graphs, 'name'), 'kernels:kernels;graphs:graphs;count:runs;launches:launches;' + TIMES, stats.graphs_left_out);
add('tables', 'Copies', judged('copy', stats.copies, 'name'), 'name:copies;count:number;bytes:bytes;' + TIMES, stats.copies_left_out);
add('tables', 'Ranges and operators', stats.ranges, 'name:range;domain:domain;count:number;total_ns:total;min_ns:shortest;max_ns:longest', stats.ranges_left_out);
add('tables', 'Functions', judged('function', stats.functions, 'func'), 'func:function;calls:calls;failed:failed;total_ns:host time;mean_ns:mean;p50_ns:median;p99_ns:p99;max_ns:longest;before_ns:median before;verdict:verdict', stats.functions_left_out);
add('troubles', 'Calls and gaps', data.tables.troubles.rows, 'call:call;at_ns:at;took_ns:took;func:function;what:what;thread:thread;step:step', data.tables.troubles.rows_left_out);
add('ranks', 'Ranks', stats.ranks?.ranks, 'rank:rank;met:collectives;last:last;waited_ns:waited for others;caused_ns:others waited;longest_ns:longest');
const threads = (stats.steps.threads || []).map(t => ({ text: `${t.thread} of process ${t.process}`, parts: names.map(n => t[n + '_ns']), ns: names.reduce((sum, n) => sum + t[n + '_ns'], 0) }));
if (threads.length) section('ranks').append(note('A typical step of each thread.'), strip('threads in a typical step', threads, Math.max(1, ...threads.map(t => t.ns)), [], b => [['thread', b.text], ['step', time(b.ns)]]).box);
for (const id of ['tables', 'troubles', 'ranks']) section(id).hidden = section(id).lastElementChild.matches('h2, .note');

section('about').append(...pairs(data.about).childNodes);
for (const f of data.findings) {
  const item = make('li', {}, (f.cost ? f.cost + ': ' : '') + f.text, make('br'), make('code', {}, f.command),
    make('button', { onclick: e => { navigator.clipboard?.writeText(f.command); e.target.textContent = 'copied'; } }, 'copy'));
  const link = (name, does) => does && item.append(make('button', { className: 'link', onclick: does }, name));
  if (f.call !== undefined) link('call ' + f.call, pictures.map(p => p.call(f.call)).find(Boolean));
  if (f.step !== undefined) link('step ' + f.step, runs[0]?.show(b => b.first <= f.step && f.step <= b.last));
  if (f.at_ns !== undefined) link('its step', runs[0]?.show(b => b.from <= f.at_ns && f.at_ns < b.from + b.ns));
  if (!item.querySelector('.link')) {
    const id = [[/memory/, 'memory'], [/fail|return|lost|killed|recorded/, 'troubles'], [/rank/, 'ranks'], [/./, 'tables']].find(([of, id]) => of.test(f.text) && !section(id).hidden)?.[1] || 'steps';
    link(section(id).querySelector('h2').textContent.toLowerCase(), () => section(id).scrollIntoView());
  }
  section('findings').querySelector('ol').append(item);
}
if (!data.findings.length) section('findings').append(make('p', {}, 'None.'));
if (data.blame) section('findings').append(make('h3', {}, 'Failure, as acltrace blame reports it'), make('pre', { id: 'blame' }, data.blame));

section('memory').hidden = !data.curves;
if (data.curves) {
  const all = data.curves.flatMap(c => c.points), end = Math.max(...all.map(p => p[0]), 1), high = Math.max(...all.map(p => p[1]), 1), dashes = [[], [6, 3], [2, 2], [8, 2, 2, 2]];
  const curves = canvas(`device memory over time; the peak is ${bytes(stats.peak_device_bytes)}`, 140, (g, w, h) => data.curves.forEach((c, i) => {
    let y = h - 2;
    g.strokeStyle = g.fillStyle = color(['launching', 'copying', 'own', 'other'][i % 4]);
    g.setLineDash(dashes[i % 4]);
    g.lineWidth = 1.5;
    line(g, [[0, y], ...c.points.flatMap(([at, n]) => [[at / end * w, y], [at / end * w, y = h - 2 - n / high * (h - 16)]]), [w, y]]);
    g.setLineDash([]);
    if (i < 4) g.fillText(c.name, 6 + i * 200, 7);
  }));
  curves.onmousemove = e => {
    const at = e.offsetX / curves.clientWidth * end;
    hover(e, moment(at) + data.curves.map(c => '\n' + c.name + ': ' + bytes((c.points.findLast(p => p[0] <= at) || [0, 0])[1])).join(''));
  };
  section('memory').append(note(stats.device_memory.map(m => `Peak ${bytes(m.peak_bytes)}` + (m.device < 0 ? '' : ` on device ${m.device}`) + ` in process ${m.process}` + (m.rank == null ? '' : ` of rank ${m.rank}`) + `, after call ${m.call}.`).join(' ')), curves,
    folded('Device memory over time', () => data.curves.flatMap(c => c.points.map(([at_ns, bytes]) => ({ name: c.name, at_ns, bytes }))), 'name:device;at_ns:at;bytes:bytes'));
  add('memory', 'Device memory at its peak', data.tables.owners, 'at_peak_bytes:bytes;at_peak_count:allocations;size_class:each;kept_bytes:never freed;device:device;func:made by;thread:thread', data.tables.owners_left_out);
}
document.body.dataset.ready = 'yes';
