// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Drawing functions for the map and the plots: the style sheet's colours, sharp lines on any screen, symbols.
const symbolPaths = Object.fromEntries(Object.entries(STATES).map(([name, { path }]) => [name, new Path2D(path)]));

let palette = readPalette();
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const found = {};
  for (const name of ["ink", "soft", "faint", "line", "card", "page", "accent", "odd", "bad-side"]) found[name] = of(name);
  for (const name of Object.keys(STATES)) found[name] = { fill: of(`${name}-fill`), ink: of(`${name}-ink`), cell: of(`${name}-cell`) };
  found.font = style.getPropertyValue("--font").trim();
  return found;
}

// Gives the canvas the resolution of the screen, and returns a context that uses CSS pixels.
function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const wide = Math.round(width * ratio);
  const high = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function drawSymbol(context, name, x, y, size, colour) {
  context.save();
  context.translate(x, y);
  context.scale(size / 16, size / 16);
  context.strokeStyle = colour;
  context.lineWidth = 1.9;
  context.lineCap = "round";
  context.lineJoin = "round";
  context.stroke(symbolPaths[name]);
  context.restore();
}

// Truncates a text to the available width.
function fitText(context, words, room) {
  if (context.measureText(words).width <= room) return words;
  let [low, high] = [0, words.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${words.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return `${words.slice(0, low)}…`;
}

// Returns about as many round numbers between two limits as wanted.
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}
