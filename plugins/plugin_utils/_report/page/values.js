// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The measured values: a plot for each reading of each VM size, with its limit, the median and outliers.
const PLOT = { high: 112, above: 20, axis: 18, side: 12 };
const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        entry.target.waits = false;
        drawPlot(entry.target);
      }
    }
  },
  { rootMargin: "300px" },
);

function drawValues() {
  if (state.view !== "values") return;
  const view = byId("view-values");
  const key = JSON.stringify(["q", "state", "check", "size", "host"].map((name) => state[name]));
  if (view.dataset.key === key) {
    // Only the selected node or the colours changed, so redraw without a new layout.
    for (const canvas of view.querySelectorAll("canvas")) if (!canvas.waits) drawPlot(canvas);
    return;
  }
  view.dataset.key = key;
  const chosen = new Set(shownNodes);
  const fits = measures.filter((measure) => (!state.check || measure.check === state.check) && (!state.size || measure.vm_size === state.size));
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  // If the search matches readings, show only their plots.
  const named = fits.filter((measure) => words.length && words.every((word) => measure.reading.toLowerCase().includes(word)));
  const wanted = named.length ? named : fits;
  const shown = named.length ? new Set(nodes) : chosen;
  const flat = wanted.filter((measure) => isFlat(measure));
  const cards = wanted.filter((measure) => !isFlat(measure)).sort((a, b) => b.odd.length - a.odd.length || b.limits.length - a.limits.length || byName(a.reading, b.reading));
  seen.disconnect();
  const parts = [make("p", { class: "hint-line" }, "Each dot is a device of a node. Dashed line: the limit, with its bad side tinted. Grey line: the median. Diamonds: outliers, with a modified z-score (Iglewicz and Hoaglin) beyond 3.5 among at least 4 nodes of one VM size.")];
  if (!wanted.length) parts.push(make("p", { class: "empty" }, "No measured value matches this filter."));
  parts.push(make("div", { class: "cards" }, ...cards.map((measure) => card(measure, shown))));
  if (flat.length) parts.push(make("h2", {}, "Equal on all devices of all nodes"), make("ul", { class: "flat" }, ...flat.map(flatItem)));
  view.replaceChildren(...parts);
}

function isFlat(measure) {
  if (measure.kind === "word") return measure.words.length === 1;
  const values = valuesOf(measure);
  return values.every(({ value }) => value === values[0].value);
}

function flatItem(measure) {
  const value = measure.kind === "word" ? measure.words[0][0] : measure.middle;
  return make("li", {}, make("code", {}, measure.reading), make("b", {}, withUnit(value, measure.unit)), make("span", { class: "dim" }, `${many(measure.values, "value")}, ${many(measure.nodes, "node")} ${measure.vm_size}`));
}

function card(measure, shown) {
  const head = make("div", { class: "card-head" }, make("h3", {}, measure.reading), make("p", { class: "dim" }, [measure.vm_size, `check ${measure.check}`].filter(Boolean).join(" · ")));
  const facts = [many(measure.values, "value"), many(measure.nodes, "node")];
  if (measure.kind === "number") facts.push(`median ${withUnit(measure.middle, measure.unit)}`);
  const body = measure.kind === "word" ? wordBars(measure) : plot(measure, shown);
  const odd = measure.odd.slice(0, 6).map((each) => nodeButton(each.node, `${each.node.hostName}${each.device ? ` ${each.device}` : ""}: ${withUnit(each.value, measure.unit)}`));
  if (measure.odd.length > 6) odd.push(make("span", { class: "dim" }, `and ${measure.odd.length - 6} more`));
  return make(
    "article",
    { class: measure.odd.length ? "card has-odd" : "card" },
    head,
    body,
    make("p", { class: "dim facts" }, facts.join(" · ")),
    odd.length ? make("div", { class: "chips" }, make("span", { class: "odd-label" }, many(measure.odd.length, "outlier")), ...odd) : null,
  );
}

function wordBars(measure) {
  const most = measure.words[0][1];
  const bar = ([word, count]) => {
    const fill = make("i", {});
    fill.style.width = `${Math.max(1, (count / most) * 100)}%`;
    return make("li", {}, make("span", { class: "word" }, word || "(empty)"), make("span", { class: "track" }, fill), make("b", {}, count.toLocaleString("en")));
  };
  return make("ul", { class: "words" }, ...measure.words.map(bar));
}

function plot(measure, shown) {
  const canvas = make("canvas", { class: "plot", role: "img", "aria-label": `${measure.reading}: ${many(measure.values, "value")}, median ${withUnit(measure.middle, measure.unit)}, ${many(measure.odd.length, "outlier")}` });
  canvas.measure = measure;
  canvas.shown = shown;
  canvas.waits = true;
  canvas.addEventListener("pointermove", (event) => hoverPlot(canvas, event));
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => {
    const point = nearest(canvas, event);
    if (point) set({ node: point.node.hostName });
  });
  seen.observe(canvas);
  return canvas;
}

// The range of the values, including limits if the values then remain readable.
function rangeOf(measure, values) {
  let low = Infinity;
  let high = -Infinity;
  for (const { value } of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const far = [];
  for (const limit of measure.limits) {
    const [lower, upper] = [Math.min(low, limit), Math.max(high, limit)];
    if (high - low > 0.08 * (upper - lower)) [low, high] = [lower, upper];
    else far.push(limit);
  }
  const pad = (high - low) * 0.04 || 1;
  return { low: low - pad, high: high + pad, far };
}

function drawPlot(canvas) {
  const { measure, shown } = canvas;
  const values = valuesOf(measure);
  const width = canvas.parentElement.clientWidth - 24;
  const range = rangeOf(measure, values);
  const context = prepare(canvas, width, PLOT.high);
  const [from, to] = [PLOT.side, width - PLOT.side];
  const x = (value) => from + ((value - range.low) / (range.high - range.low)) * (to - from);
  const floor = PLOT.high - PLOT.axis;
  drawLimits(context, measure, range, x, floor, width);
  drawAxis(context, measure, range, x, floor, from, to);
  const odd = new Set(measure.odd.map((each) => `${each.node.place} ${each.device}`));
  const isOdd = (point) => odd.has(`${point.node.place} ${point.device}`);
  const step = 4;
  const bins = new Map();
  canvas.points = [];
  for (const point of values) {
    const at = x(point.value);
    canvas.points.push({ ...point, x: at });
    if (isOdd(point)) continue;
    const bin = Math.round((at - from) / step);
    const found = bins.get(bin) || [0, 0];
    found[0] += 1;
    if (shown.has(point.node)) found[1] += 1;
    bins.set(bin, found);
  }
  drawBins(context, bins, from, step, floor);
  for (const point of canvas.points) if (isOdd(point)) drawDiamond(context, point.x, floor - 9, shown.has(point.node) ? palette.odd : palette.faint);
  for (const point of canvas.points) {
    if (point.node.hostName === state.node) {
      context.fillStyle = palette.accent;
      context.fillRect(point.x - 1, floor, 2, 7);
    }
  }
}

function drawBins(context, bins, from, step, floor) {
  const most = Math.max(1, ...[...bins.values()].map(([all]) => all));
  const room = floor - PLOT.above;
  const dot = Math.min(step, room / most);
  for (const [bin, [all, chosen]] of bins) {
    const at = from + bin * step;
    for (const [count, colour] of [[all, palette.faint], [chosen, palette.pass.fill]]) {
      context.fillStyle = colour;
      if (dot >= 3) {
        for (let place = 0; place < count; place += 1) {
          context.beginPath();
          context.arc(at, floor - dot * (place + 0.5), dot / 2 - 0.25, 0, 7);
          context.fill();
        }
      } else if (count) {
        const high = Math.max(2, (count / most) * room);
        context.fillRect(at - step / 2 + 0.5, floor - high, step - 1, high);
      }
    }
  }
}

function drawDiamond(context, x, y, colour) {
  context.fillStyle = colour;
  context.strokeStyle = palette.card;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, y - 6);
  context.lineTo(x + 5, y);
  context.lineTo(x, y + 6);
  context.lineTo(x - 5, y);
  context.closePath();
  context.fill();
  context.stroke();
}

function drawLimits(context, measure, range, x, floor, width) {
  context.font = `11px ${palette.font}`;
  context.textBaseline = "top";
  const middle = x(measure.middle);
  context.fillStyle = palette.line;
  context.fillRect(middle - 0.5, PLOT.above - 4, 1, floor - PLOT.above + 4);
  for (const limit of measure.limits) {
    const words = `${measure.at_most ? "≤" : "≥"} ${show(limit)}`;
    context.fillStyle = palette.fail.fill;
    if (range.far.includes(limit)) {
      const right = limit > measure.middle;
      context.textAlign = right ? "right" : "left";
      context.fillText(right ? `limit ${words} →` : `← limit ${words}`, right ? width - 4 : 4, 2);
      continue;
    }
    const at = x(limit);
    context.fillStyle = palette["bad-side"];
    context.fillRect(measure.at_most ? at : 0, PLOT.above - 4, measure.at_most ? width - at : at, floor - PLOT.above + 4);
    context.strokeStyle = palette.fail.fill;
    context.setLineDash([4, 3]);
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(at, PLOT.above - 4);
    context.lineTo(at, floor);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = palette.fail.fill;
    context.textAlign = at > width / 2 ? "right" : "left";
    context.fillText(`limit ${words}`, at + (at > width / 2 ? 4 : -4), 2);
  }
}

function drawAxis(context, measure, range, x, floor, from, to) {
  context.fillStyle = palette.line;
  context.fillRect(from, floor, to - from, 1);
  context.fillStyle = palette.soft;
  context.font = `11px ${palette.font}`;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const tick of ticks(range.low, range.high, 5)) {
    const at = x(tick);
    if (at > from + 8 && at < to - 8) context.fillText(show(tick), at, floor + 5);
  }
}

function nearest(canvas, event) {
  const at = event.clientX - canvas.getBoundingClientRect().left;
  let best = null;
  for (const point of canvas.points || []) {
    if (canvas.shown.has(point.node) && (!best || Math.abs(point.x - at) < Math.abs(best.x - at))) best = point;
  }
  return best && Math.abs(best.x - at) <= 12 ? best : null;
}

function hoverPlot(canvas, event) {
  const point = nearest(canvas, event);
  if (!point) return hideTip();
  const { measure } = canvas;
  const odd = measure.odd.find((each) => each.node === point.node && each.device === point.device);
  const lines = [make("strong", {}, withUnit(point.value, measure.unit)), make("span", {}, [point.node.hostName, point.device].filter(Boolean).join(" · "))];
  if (odd) lines.push(make("span", { class: "tip-odd" }, odd.why));
  return showTip(event.clientX, event.clientY, ...lines);
}
