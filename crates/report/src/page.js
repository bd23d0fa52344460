
"use strict";
// Tables: a click on a heading sorts by it, a second one the other way round.
for (const button of document.querySelectorAll("th button")) button.onclick = () => {
  const th = button.parentNode, body = th.closest("table").tBodies[0], i = th.cellIndex;
  const up = th.getAttribute("aria-sort") === "descending" || (!th.hasAttribute("aria-sort") && !th.classList.contains("n"));
  for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => row.cells[i].dataset.v === undefined ? null : +row.cells[i].dataset.v, text = row => row.cells[i].textContent;
  body.append(...[...body.rows].sort((a, b) => {
    const x = value(a), y = value(b);
    const order = x !== null && y !== null ? x - y : x !== null ? 1 : y !== null ? -1 : text(a).localeCompare(text(b), "en", {numeric: true});
    return up ? order : -order;
  }));
};
// Lines: the nearest point of every series, read back from the drawn path.
const tip = document.getElementById("tip");
for (const marks of document.querySelectorAll("svg[data-t0]")) {
  const plot = marks.parentNode, d = marks.dataset, height = marks.viewBox.baseVal.height, cross = document.createElementNS(marks.namespaceURI, "path");
  cross.setAttribute("class", "cross");
  const lines = [...marks.querySelectorAll("path[data-name]")].map(p => [p.dataset.name, p.getAttribute("d").slice(1).split(/[ML]/).map(s => s.split(" ").map(Number))]);
  plot.onpointermove = event => {
    const box = plot.getBoundingClientRect(), x = Math.min(1000, Math.max(0, (event.clientX - box.left) / box.width * 1000));
    const at = +d.t0 + (d.t1 - d.t0) * x / 1000;
    const rows = [d.axis ? d.axis + " " + Math.round(at) : new Date(at).toISOString().slice(0, 16).replace("T", " ").replace(" 00:00", "")];
    for (const [name, points] of lines) {
      let lo = 0, hi = points.length - 1;
      while (lo < hi) { const mid = lo + hi >> 1; if (points[mid][0] < x) lo = mid + 1; else hi = mid; }
      if (lo > 0 && x - points[lo - 1][0] < points[lo][0] - x) lo--;
      if (Math.abs(points[lo][0] - x) > 25) continue;
      let y = +d.y0 + (d.y1 - d.y0) * (1 - points[lo][1] / height);
      if (d.log) y = Math.exp(y);
      rows.push(name + "  " + y.toLocaleString("en", {maximumSignificantDigits: 4}));
    }
    cross.setAttribute("d", `M${x} 0V${height}`);
    marks.append(cross);
    tip.textContent = rows.join("\n");
    tip.hidden = false;
    const left = event.clientX + 16 + tip.offsetWidth > innerWidth ? event.clientX - 16 - tip.offsetWidth : event.clientX + 16;
    tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, event.clientY - tip.offsetHeight - 10)}px)`;
  };
  plot.onpointerleave = () => { tip.hidden = true; cross.remove(); };
}
