// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The map of nodes and checks. Only visible cells are drawn, on one canvas that stays in place while its frame scrolls,
// so that six thousand nodes take no more time than sixty. Arrow keys move between cells, and screen readers read them.
const map = { cursor: null, hover: null, frame: null, canvas: null, spacer: null };

function buildMap() {
  map.canvas = make("canvas", { "aria-hidden": "true" });
  map.spacer = make("div", { class: "map-spacer" });
  map.frame = make(
    "div",
    { class: "map-frame", tabIndex: 0, role: "application", "aria-roledescription": "heat map", "aria-label": "Nodes by checks. Arrow keys move from cell to cell, Enter opens the node." },
    map.canvas,
    map.spacer,
  );
  const legend = make("div", { class: "legend" }, ...Object.keys(STATES).map((name) => make("span", { class: "legend-item", title: STATES[name].means }, make("i", { class: `cell is-${name}` }, symbol(name)), STATES[name].label)));
  const only = make("input", { type: "checkbox", id: "columns", onchange: (event) => set({ columns: event.target.checked ? "found" : "" }) });
  legend.append(make("span", { class: "legend-item" }, make("i", { class: "cell odd-mark" }), "a value is an outlier"));
  const tools = make("div", { class: "map-tools" }, legend, make("label", { class: "check" }, only, "only checks that found something"));
  byId("view-map").replaceChildren(tools, map.frame, make("p", { class: "empty", id: "map-empty", hidden: true }, "No node matches this filter."));
  map.frame.addEventListener("scroll", drawMap, { passive: true });
  map.frame.addEventListener("pointermove", (event) => hoverMap(cellAt(event), event));
  map.frame.addEventListener("pointerleave", () => hoverMap(null));
  map.frame.addEventListener("click", (event) => openCell(cellAt(event)));
  map.frame.addEventListener("keydown", walk);
  map.frame.addEventListener("blur", () => hoverMap(null));
  new ResizeObserver(drawMap).observe(map.frame);
}

// Computes the layout for the number of nodes and checks and the available space.
function mapLayout() {
  const columns = shownChecks();
  const context = map.canvas.getContext("2d");
  context.font = `12px ${palette.font}`;
  const rows = shownNodes.length;
  const high = rows <= 40 ? 26 : rows <= 150 ? 20 : 16;
  const widest = (texts) => texts.reduce((most, words) => Math.max(most, context.measureText(words).width), 0);
  const names = Math.min(240, Math.max(90, widest(shownNodes.map((node) => node.hostName).slice(0, 2000)) + 40));
  const labels = columns.map((place) => checkNames[place]);
  const slope = Math.PI / 3.2;
  const head = Math.min(190, widest(labels) * Math.sin(slope) + 16);
  const overhang = Math.min(190, widest(labels.slice(-1)) * Math.cos(slope) + 14);
  const room = map.frame.clientWidth - names - overhang;
  const wide = Math.max(high, Math.min(44, room / Math.max(1, columns.length)));
  return { columns, labels, rows, high, wide, names, head, slope, overhang };
}

function drawMap() {
  if (state.view !== "map") return;
  byId("columns").checked = state.columns === "found";
  byId("map-empty").hidden = shownNodes.length > 0;
  map.frame.hidden = shownNodes.length === 0;
  if (map.frame.hidden) return;
  const box = mapLayout();
  map.box = box;
  map.frame.dataset.layout = JSON.stringify({ names: box.names, head: box.head, wide: box.wide, high: box.high });
  map.spacer.style.width = `${box.names + box.columns.length * box.wide + box.overhang}px`;
  map.spacer.style.height = `${box.head + box.rows * box.high + 8}px`;
  const [width, height] = [map.frame.clientWidth, Math.min(map.frame.clientHeight, box.head + box.rows * box.high + 8)];
  map.canvas.style.marginBottom = `-${height}px`;
  const context = prepare(map.canvas, width, height);
  const [left, top] = [map.frame.scrollLeft, map.frame.scrollTop];
  const firstRow = Math.floor(top / box.high);
  const lastRow = Math.min(box.rows, Math.ceil((top + height - box.head) / box.high) + 1);
  map.frame.dataset.rows = String(lastRow - firstRow);
  context.save();
  context.beginPath();
  context.rect(box.names, box.head, width, height);
  context.clip();
  for (let row = firstRow; row < lastRow; row += 1) drawRow(context, box, row, left, top);
  drawCursor(context, box, left, top);
  context.restore();
  drawNames(context, box, firstRow, lastRow, top, height);
  drawHead(context, box, left, width);
}

function drawRow(context, box, row, left, top) {
  const node = shownNodes[row];
  const y = box.head + row * box.high - top;
  const gap = box.high > 18 ? 2 : 1;
  if (node.hostName === state.node || (map.hover && map.hover.row === row)) {
    context.fillStyle = palette["bad-side"];
    context.fillRect(box.names, y, box.columns.length * box.wide, box.high);
  }
  const firstColumn = Math.max(0, Math.floor(left / box.wide));
  const lastColumn = Math.min(box.columns.length, Math.ceil((left + map.frame.clientWidth) / box.wide));
  for (let column = firstColumn; column < lastColumn; column += 1) {
    const result = node.byCheck[box.columns[column]];
    const verdict = result ? result.verdict : node.state === "no_answer" ? "no_answer" : "";
    if (verdict) drawCell(context, verdict, box.names + column * box.wide - left + gap, y + gap, box.wide - 2 * gap, box.high - 2 * gap);
    if (result && oddChecks(node).has(result.name)) {
      const [x, size] = [box.names + (column + 1) * box.wide - left - gap, Math.min(9, box.high / 2.2)];
      context.fillStyle = palette.ink;
      context.beginPath();
      context.moveTo(x, y + gap);
      context.lineTo(x - size, y + gap);
      context.lineTo(x, y + gap + size);
      context.fill();
    }
  }
}

function oddChecks(node) {
  node.oddChecks = node.oddChecks || new Set(node.odd.map((odd) => odd.measure.check));
  return node.oddChecks;
}

function drawCell(context, verdict, x, y, width, height) {
  const { cell, ink } = palette[verdict];
  context.fillStyle = cell;
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(4, height / 4));
  context.fill();
  const size = Math.min(13, height - 2, width - 2);
  if (verdict !== "pass" && size >= 6) drawSymbol(context, verdict, x + (width - size) / 2, y + (height - size) / 2, size, ink);
}

function drawCursor(context, box, left, top) {
  const at = map.hover || (document.activeElement === map.frame ? map.cursor : null);
  if (!at) return;
  context.strokeStyle = palette.accent;
  context.lineWidth = 2;
  context.strokeRect(box.names + at.column * box.wide - left + 1, box.head + at.row * box.high - top + 1, box.wide - 2, box.high - 2);
}

function drawNames(context, box, firstRow, lastRow, top, height) {
  context.save();
  context.beginPath();
  context.rect(0, box.head, box.names, height);
  context.clip();
  context.textBaseline = "middle";
  for (let row = firstRow; row < lastRow; row += 1) {
    const node = shownNodes[row];
    const y = box.head + row * box.high - top + box.high / 2;
    const strong = node.hostName === state.node || (map.hover && map.hover.row === row);
    const size = Math.min(14, box.high - 3);
    drawSymbol(context, node.state, 6, y - size / 2, size, palette[node.state].fill);
    context.font = `${strong ? "600 " : ""}${box.high < 18 ? 11 : 12}px ${palette.font}`;
    context.fillStyle = strong ? palette.ink : palette.soft;
    context.fillText(fitText(context, node.hostName, box.names - 34), 26, y);
  }
  context.restore();
}

function drawHead(context, box, left, width) {
  context.save();
  context.beginPath();
  context.rect(box.names, 0, width, box.head);
  context.clip();
  box.columns.forEach((place, column) => {
    const x = box.names + column * box.wide - left + box.wide / 2;
    const strong = map.hover && map.hover.column === column;
    context.save();
    context.translate(x - 3, box.head - 7);
    context.rotate(-box.slope);
    context.font = `${strong ? "600 " : ""}12px ${palette.font}`;
    context.textBaseline = "middle";
    context.fillStyle = strong ? palette.ink : palette.soft;
    context.fillText(fitText(context, box.labels[column], (box.head - 12) / Math.sin(box.slope)), 0, 0);
    context.restore();
  });
  context.restore();
  context.fillStyle = palette.line;
  context.fillRect(0, box.head - 1, width, 1);
}

function cellAt(event) {
  const frame = map.frame.getBoundingClientRect();
  const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
  const column = Math.floor((x - map.box.names + map.frame.scrollLeft) / map.box.wide);
  const row = Math.floor((y - map.box.head + map.frame.scrollTop) / map.box.high);
  if (y < map.box.head || row < 0 || row >= map.box.rows || column >= map.box.columns.length) return null;
  return { row, column: x < map.box.names ? -1 : column };
}

function hoverMap(cell, event) {
  const same = cell && map.hover && cell.row === map.hover.row && cell.column === map.hover.column;
  map.hover = cell;
  if (!same) requestAnimationFrame(drawMap);
  if (!cell) hideTip();
  else if (event) showTip(event.clientX, event.clientY, ...linesOf(cell));
}

function linesOf({ row, column }) {
  const node = shownNodes[row];
  const result = column < 0 ? null : node.byCheck[map.box.columns[column]];
  const name = column < 0 ? "" : map.box.labels[column];
  const head = make("strong", {}, name ? `${node.hostName} · ${name}` : node.hostName);
  if (!name || !result) return [head, make("span", {}, badge(node.state), ` ${node.problem || (name ? "not run on this node" : node.what)}`)];
  const odd = node.odd.filter((each) => each.measure.check === name).map((each) => make("span", { class: "tip-odd" }, `outlier: ${each.measure.reading} ${each.device} ${withUnit(each.value, each.measure.unit)}`));
  return [head, make("span", {}, badge(result.verdict), ` ${result.summary}`), ...odd.slice(0, 3)];
}

function openCell(cell) {
  if (!cell) return;
  map.cursor = { row: cell.row, column: Math.max(0, cell.column) };
  set({ node: shownNodes[cell.row].hostName });
}

function walk(event) {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-20, 0], PageDown: [20, 0], Home: [-1e9, 0], End: [1e9, 0] };
  if (event.key === "Enter" && map.cursor) {
    event.preventDefault();
    openCell(map.cursor);
  }
  if (!(event.key in moves)) return;
  event.preventDefault();
  const [down, right] = moves[event.key];
  const { box } = map;
  const from = map.cursor || { row: down > 0 ? -1 : 0, column: right > 0 ? -1 : 0 };
  const clamp = (value, most) => Math.max(0, Math.min(most - 1, value));
  map.cursor = { row: clamp(from.row + down, box.rows), column: clamp(from.column + right, box.columns.length) };
  map.hover = null;
  const [x, y] = [map.cursor.column * box.wide, map.cursor.row * box.high];
  const [roomWide, roomHigh] = [map.frame.clientWidth - box.names - box.overhang, map.frame.clientHeight - box.head - box.high];
  map.frame.scrollTop = Math.min(y, Math.max(map.frame.scrollTop, y - roomHigh));
  map.frame.scrollLeft = Math.min(x, Math.max(map.frame.scrollLeft, x - roomWide + box.wide));
  drawMap();
  const frame = map.frame.getBoundingClientRect();
  const lines = linesOf(map.cursor);
  showTip(frame.left + box.names + x - map.frame.scrollLeft + box.wide, frame.top + box.head + y - map.frame.scrollTop, ...lines);
  say(lines.map((line) => line.textContent).join(": "));
}
