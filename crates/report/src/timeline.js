
// One of several: a list shows the block of the name that is chosen.
for (const choice of document.querySelectorAll(".choice")) {
  const select = choice.querySelector("select"), parts = [...choice.children].slice(1);
  const show = () => { parts.forEach((part, i) => part.hidden = i !== select.selectedIndex); charts.forEach(chart => chart.asked = true); redraw(); };
  select.onchange = show;
  parts.forEach((part, i) => part.hidden = i > 0);
}
// Timelines: drawn from the packed numbers beside them; all of a page show the same range of time.
const charts = [], DAY = 864e5, MONTH = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
let full = [Infinity, -Infinity], shown = null, least = DAY, cursor = null, waiting = false;
// Whole numbers of seven bits a byte, the low ones first.
function unpack(text) {
  const all = [];
  let value = 0, place = 1;
  for (const c of atob(text)) {
    const byte = c.charCodeAt(0);
    value += (byte & 127) * place;
    if (byte > 127) place *= 128; else { all.push(value); value = 0; place = 1; }
  }
  return all;
}
function unpackTimes(d) { let t = d.from; return Float64Array.from(unpack(d.steps), n => t += n * d.unit); }
function unpackValues(d) { let v = 0; return Float64Array.from(unpack(d.steps), n => n ? d.low + d.step * (v += n % 2 ? (n - 1) / 2 : -n / 2) : 0 / 0); }
function node(name, attributes, text) {
  const made = document.createElementNS(charts[0].svg.namespaceURI, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
}
// The first place in a rising list that is not below t.
function place(times, t) {
  let lo = 0, hi = times.length;
  while (lo < hi) { const mid = lo + hi >> 1; if (times[mid] < t) lo = mid + 1; else hi = mid; }
  return lo;
}
function nearest(times, t) {
  const at = place(times, t);
  return at > 0 && (at === times.length || t - times[at - 1] < times[at] - t) ? at - 1 : at;
}
function written(value, scale, digits) {
  if (scale === "growth") value -= 1;
  if (scale !== "number") value *= 100;
  if (Math.abs(value) >= 1e7) return value.toExponential(1).replace("e+", "e") + (scale === "number" ? "" : " %");
  const text = value.toLocaleString("en", digits === undefined ? {maximumSignificantDigits: Math.abs(value) >= 1000 ? 7 : 4} : {minimumFractionDigits: digits, maximumFractionDigits: digits});
  return text.replace("-", "\u2212").replace(/^\u2212(0(\.0*)?)$/, "$1") + (scale === "number" ? "" : " %");
}
function dated(t, clock) { const text = new Date(t).toISOString(); return text.slice(0, 10) + (clock ? " " + text.slice(11, 16) : ""); }
// Round values between two.
function steps(lo, hi, n) {
  const rough = (hi - lo) / n, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= rough * .999), all = [];
  for (let i = Math.ceil(lo / step); i * step <= hi; i++) all.push(i * step);
  return [all, Math.max(0, (step / power % 1 ? 1 : 0) - Math.floor(Math.log10(step) + 1e-9))];
}
// Powers of ten and what lies between them, as percent of change.
function decades(lo, hi) {
  const all = [], [first, last] = [lo, hi].map(v => Math.floor(Math.log10(v))), skip = Math.max(1, Math.round((last - first) / 5));
  for (let p = first; p <= last; p += skip) for (const m of last - first < 4 ? [1, 2, 5] : [1]) all.push((m * 10 ** p - 1) * 100);
  return [all.filter(v => v / 100 + 1 >= lo && v / 100 + 1 <= hi), 0];
}
// Round instants between two, with short names.
function instants(t0, t1, n) {
  const want = (t1 - t0) / n, all = [], months = Math.round(want / (30.4 * DAY));
  if (months >= 1) {
    const step = [1, 2, 3, 6, 12, 24, 60, 120].find(s => s >= months) || 240, from = new Date(t0);
    for (let m = Math.floor((from.getUTCFullYear() * 12 + from.getUTCMonth()) / step) * step; ; m += step) {
      const t = Date.UTC(Math.floor(m / 12), m % 12);
      if (t > t1) return all;
      if (t >= t0) all.push([t, m % 12 ? MONTH[m % 12] : "" + m / 12]);
    }
  }
  const step = [1, 5, 10, 30, 60, 120, 180, 360, 720].map(m => m * 6e4).concat([1, 2, 5, 7, 14].map(d => d * DAY)).find(s => s >= want) || 28 * DAY;
  for (let t = Math.ceil(t0 / step) * step; t <= t1; t += step) {
    const at = new Date(t);
    all.push([t, t % DAY ? at.toISOString().slice(11, 16) : at.getUTCDate() + " " + MONTH[at.getUTCMonth()]]);
  }
  return all;
}
// A line through the first, lowest, highest and last point of each pixel.
function through(times, values, from, to, x, y, wide) {
  let path = "", pen = "M";
  const point = i => { if (values[i] !== values[i]) { pen = "M"; return; } path += pen + x(times[i]).toFixed(1) + " " + y(values[i]).toFixed(1); pen = "L"; };
  if (to - from <= 2 * wide) { for (let i = from; i < to; i++) point(i); return path; }
  for (let i = from; i < to;) {
    const column = Math.floor(x(times[i]));
    let low = i, high = i, last = i;
    for (; i < to && Math.floor(x(times[i])) === column; i++) { if (values[i] < values[low]) low = i; if (values[i] > values[high]) high = i; last = i; }
    point(Math.min(low, high)); if (low !== high) point(Math.max(low, high)); if (last > Math.max(low, high)) point(last);
  }
  return path;
}
for (const figure of document.querySelectorAll(".timeline")) {
  const spec = JSON.parse(figure.querySelector("script").textContent), svg = figure.querySelector("svg");
  for (const s of spec.series) {
    s.time = unpackTimes(s.time);
    s.value = unpackValues(s.value);
    if (s.upper) s.upper = unpackValues(s.upper);
    if (s.time.length) full = [Math.min(full[0], s.time[0]), Math.max(full[1], s.time.at(-1))];
    for (let i = 1; i < Math.min(s.time.length, 500); i++) if (s.time[i] > s.time[i - 1]) least = Math.min(least, s.time[i] - s.time[i - 1]);
  }
  if (spec.trades) {
    const t = spec.trades, opened = unpackTimes(t.opened), held = unpack(t.held), [entry, exit, result] = [t.entry, t.exit, t.result].map(unpackValues);
    spec.trades = [...opened].map((at, i) => ({opened: at, closed: at + held[i], long: t.side[i] === "+", entry: entry[i], exit: exit[i], result: result[i]}));
  }
  const clock = spec.series.some(s => s.time.length > 1 && (s.time.at(-1) - s.time[0]) / (s.time.length - 1) < .9 * DAY);
  charts.push({figure, spec, svg, clock, asked: true, range: figure.querySelector(".range"), reset: figure.querySelector(".reset")});
}
function draw(chart) {
  const {spec, svg} = chart, all = svg.clientWidth, top = spec.borders.length ? 16 : 4;
  chart.asked = false;
  if (!all) return;
  const height = spec.height, bottom = top + height, axis = all < 500 ? 48 : 58, wide = all - axis, [t0, t1] = shown;
  const x = t => (t - t0) / (t1 - t0) * wide;
  const parts = spec.series.map(s => [s, Math.max(0, place(s.time, t0) - 1), Math.min(s.time.length, place(s.time, t1) + 1)]);
  let lo = Infinity, hi = -Infinity;
  for (const [s, from, to] of parts) for (let i = from; i < to; i++) {
    const v = s.value[i], u = s.upper ? s.upper[i] : v;
    if (v < lo) lo = v;
    if (u > hi) hi = u;
  }
  if (spec.series.some(s => s.look === "area" || s.look === "other")) { lo = Math.min(lo, 0); hi = Math.max(hi, 0); }
  if (!(lo <= hi)) { lo = 0; hi = 1; }
  const log = spec.scale === "growth" && lo > 0 && hi / lo > 3, room = (hi - lo) * .05 || Math.abs(hi) * .02 || .01;
  // What only falls from zero, or rises from it, has no room beyond it.
  const flat = spec.series.length === 1 && spec.series[0].look === "area";
  if (log) [lo, hi] = [lo / (hi / lo) ** .05, hi * (hi / lo) ** .05];
  else {
    if (!(flat && lo === 0)) lo -= room;
    if (!(flat && hi === 0)) hi += room;
  }
  const f = log ? Math.log : v => v;
  const y = v => (1 - (f(v) - f(lo)) / (f(hi) - f(lo))) * height + top;
  Object.assign(chart, {x, y, wide, top});
  const made = [], marks = node("svg", {width: wide, height: bottom + 1, "aria-hidden": "true"});
  const unit = spec.scale === "number" ? 1 : 100, off = spec.scale === "growth" ? 1 : 0;
  const [values, digits] = log && hi / lo > 30 ? decades(lo, hi) : steps((lo - off) * unit, (hi - off) * unit, Math.max(2, Math.round(height / 52)));
  for (const value of values) {
    const at = y(value / unit + off);
    made.push(node("line", {class: "grid" + (value === 0 ? " zero" : ""), x1: 0, x2: wide, y1: at, y2: at}));
    made.push(node("text", {x: wide + 8, y: at + 3.5}, written(value / unit + off, spec.scale, digits)));
  }
  let before = -Infinity;
  for (const [t, name] of instants(t0, t1, Math.max(2, Math.round(wide / 110)))) {
    const at = x(t), half = name.length * 3.4, left = Math.min(Math.max(at, half), wide - half);
    if (left - half < before + 12) continue;
    before = left + half;
    made.push(node("text", {x: left, y: bottom + 17, "text-anchor": "middle"}, name));
  }
  let labelled = -Infinity;
  for (const [t, name] of spec.borders) {
    const at = Math.abs(x(t)) < wide / 50 ? Math.max(.5, x(t)) : x(t), long = name.length * 6;
    if (at < 0 || at > wide) continue;
    marks.append(node("line", {class: "border", x1: at, x2: at, y1: top - 12, y2: bottom}));
    if (at < labelled + 8 || at + long + 4 > wide) continue;
    labelled = at + long;
    marks.append(node("text", {class: "border", x: at + 4, y: top - 5}, name));
  }
  for (const [s, from, to] of parts.slice().reverse()) {
    let path = through(s.time, s.value, from, to, x, y, wide);
    if (!path) continue;
    if (s.look === "band") {
      const back = through(s.time, s.upper, from, to, x, y, wide).slice(1).split(/[LM]/).reverse().join("L");
      path += "L" + back + "Z";
    } else if (s.look === "area" || s.look === "other") {
      marks.append(node("path", {class: "under " + s.look, d: path + `L${x(s.time[to - 1]).toFixed(1)} ${y(0).toFixed(1)}L${x(s.time[from]).toFixed(1)} ${y(0).toFixed(1)}Z`}));
    }
    marks.append(node("path", {class: "over " + s.look, d: path}));
  }
  let note = "";
  if (spec.trades) {
    const seen = spec.trades.filter(t => t.closed >= t0 && t.opened <= t1), count = seen.length.toLocaleString("en") + (seen.length === 1 ? " trade" : " trades");
    note = seen.length > 250 ? count + " in view, zoom in to see each; " : count + " in view; ";
    if (seen.length > 250) {
      const bins = new Map();
      for (const t of seen) { const bin = Math.floor(x(t.opened) / 5), b = bins.get(bin) || [0, 0]; b[0]++; b[1] += t.result; bins.set(bin, b); }
      const most = Math.max(...[...bins.values()].map(b => b[0]));
      for (const [bin, [n, result]] of bins) { const tall = 4 + 36 * n / most; marks.append(node("rect", {class: result < 0 ? "loss" : "win", x: bin * 5, y: bottom - tall, width: 4, height: tall})); }
    } else for (const t of seen) {
      const [x0, x1, y0, y1, s] = [x(t.opened), x(t.closed), y(t.entry), y(t.exit), t.long ? 1 : -1];
      marks.append(node("line", {class: "held " + (t.result < 0 ? "loss" : "win"), x1: x0, x2: x1, y1: y0, y2: y1}));
      marks.append(node("path", {class: "entry " + (t.long ? "long" : "short"), d: `M${x0} ${y0 + 1 * s}l-4.5 ${8 * s}h9z`}));
      marks.append(node("circle", {class: "exit " + (t.result < 0 ? "loss" : "win"), cx: x1, cy: y1, r: 3}));
    }
  }
  chart.cross = node("path", {class: "cross"});
  chart.drag = node("rect", {class: "drag", y: top, height, width: 0});
  marks.append(chart.cross, chart.drag);
  svg.replaceChildren(...made, marks);
  chart.range.textContent = note + dated(t0) + " to " + dated(t1);
  chart.reset.hidden = t0 <= full[0] && t1 >= full[1];
}
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; charts.forEach(chart => chart.asked && draw(chart)); });
}
function zoom(t0, t1) {
  const span = Math.min(Math.max(t1 - t0, 12 * least), full[1] - full[0]), middle = (t0 + t1) / 2;
  const from = Math.min(Math.max(middle - span / 2, full[0]), full[1] - span);
  shown = [from, from + span];
  charts.forEach(chart => chart.asked = true);
  redraw();
}
// Zooms by a factor around an instant that stays where it is.
function scale(factor, at) { zoom(at - (at - shown[0]) * factor, at + (shown[1] - at) * factor); }
function point(chart, event) {
  const box = chart.svg.getBoundingClientRect(), across = Math.min(Math.max(event.clientX - box.left, 0), chart.wide), t = shown[0] + across / chart.wide * (shown[1] - shown[0]);
  for (const other of charts) if (other.cross && other.x) other.cross.setAttribute("d", `M${other.x(t).toFixed(1)} ${other.top}V${other.top + other.spec.height}`);
  const rows = [dated(t, chart.clock && shown[1] - shown[0] < 400 * DAY)];
  for (const s of chart.spec.series) {
    const at = nearest(s.time, t);
    if (at >= s.time.length || Math.abs(s.time[at] - t) > Math.max((shown[1] - shown[0]) / 25, 7 * DAY) || s.value[at] !== s.value[at]) continue;
    const value = i => written(i, chart.spec.scale, chart.spec.scale === "number" ? undefined : 2);
    rows.push(s.name + "  " + value(s.value[at]) + (s.upper ? " to " + value(s.upper[at]) : ""));
  }
  let best = null, near = 12;
  for (const trade of chart.spec.trades || []) {
    if (trade.closed < shown[0] || trade.opened > shown[1]) continue;
    const away = Math.min(...[[trade.opened, trade.entry], [trade.closed, trade.exit]].map(([time, price]) => Math.hypot(chart.x(time) - across, chart.y(price) - (event.clientY - box.top))));
    if (away < near) { near = away; best = trade; }
  }
  if (best) rows.push((best.long ? "long " : "short ") + written(best.entry, "number") + " \u2192 " + written(best.exit, "number") + "  " + written(best.result, "percent", 2),
    dated(best.opened, chart.clock) + " to " + dated(best.closed, chart.clock));
  tip.textContent = rows.join("\n");
  tip.hidden = false;
  const left = event.clientX + 16 + tip.offsetWidth > innerWidth ? event.clientX - 16 - tip.offsetWidth : event.clientX + 16;
  tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, event.clientY - tip.offsetHeight - 10)}px)`;
  return across;
}
for (const chart of charts) {
  const {svg} = chart;
  let from = null;
  svg.onpointerdown = event => { if (event.button || !chart.x) return; svg.focus({preventScroll: true}); svg.setPointerCapture(event.pointerId); from = point(chart, event); };
  svg.onpointermove = event => {
    if (!chart.x) return;
    const at = point(chart, event);
    if (from !== null && chart.drag) { chart.drag.setAttribute("x", Math.min(from, at)); chart.drag.setAttribute("width", Math.abs(at - from)); }
  };
  svg.onpointerup = event => {
    if (from === null) return;
    const at = point(chart, event), [a, b] = [Math.min(from, at), Math.max(from, at)], t = p => shown[0] + p / chart.wide * (shown[1] - shown[0]);
    from = null;
    if (b - a > 6) zoom(t(a), t(b)); else if (chart.drag) chart.drag.setAttribute("width", 0);
  };
  svg.onpointercancel = () => { from = null; if (chart.drag) chart.drag.setAttribute("width", 0); };
  svg.onpointerleave = () => { tip.hidden = true; charts.forEach(other => other.cross && other.cross.removeAttribute("d")); };
  svg.ondblclick = chart.reset.onclick = () => { zoom(...full); svg.focus({preventScroll: true}); };
  // A page must scroll: the wheel zooms a chart that was clicked, or with Ctrl.
  svg.addEventListener("wheel", event => {
    if (!(event.ctrlKey || event.metaKey || document.activeElement === svg) || !chart.x) return;
    event.preventDefault();
    const box = svg.getBoundingClientRect(), span = shown[1] - shown[0];
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) zoom(shown[0] + span * event.deltaX / 800, shown[1] + span * event.deltaX / 800);
    else scale(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), shown[0] + Math.min(1, (event.clientX - box.left) / chart.wide) * span);
  }, {passive: false});
  svg.onkeydown = event => {
    const span = shown[1] - shown[0], middle = (shown[0] + shown[1]) / 2;
    const keys = {ArrowLeft: () => zoom(shown[0] - span / 5, shown[1] - span / 5), ArrowRight: () => zoom(shown[0] + span / 5, shown[1] + span / 5),
      "+": () => scale(.6, middle), "=": () => scale(.6, middle), "-": () => scale(1 / .6, middle), Home: () => zoom(...full), Escape: () => zoom(...full)};
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  };
}
if (charts.length) {
  if (!(full[0] < full[1])) full = [full[0] === Infinity ? 0 : full[0] - DAY, full[1] === -Infinity ? DAY : full[1] + DAY];
  shown = full.slice();
  const seen = new ResizeObserver(entries => { for (const entry of entries) charts.find(chart => chart.svg === entry.target).asked = true; redraw(); });
  charts.forEach(chart => seen.observe(chart.svg));
  charts.forEach(draw);
}
