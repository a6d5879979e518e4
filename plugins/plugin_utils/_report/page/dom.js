// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Creates elements from text only, so that texts from nodes never become HTML.
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role" || key === "scope") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

function symbol(name, words) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", `symbol is-${name}`);
  if (words) {
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", words);
  } else svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", STATES[name].path);
  svg.append(path);
  return svg;
}

function badge(name) {
  return make("span", { class: `badge is-${name}` }, symbol(name), STATES[name].label);
}

function link(address, words, about) {
  return make("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, words, make("span", { class: "unseen" }, ` ${about}`));
}

function nodeButton(node, words) {
  return make("button", { type: "button", class: "chip", onclick: () => set({ node: node.hostName }) }, symbol(node.state, STATES[node.state].label), words || node.hostName);
}

function fillSelect(id, entries, first) {
  const all = first === undefined ? entries : [["", first], ...entries];
  byId(id).replaceChildren(...all.map(([value, label]) => make("option", { value }, label)));
}

// A tooltip next to the pointer, or next to the selected cell.
const tip = byId("tip");
function showTip(x, y, ...lines) {
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
  const top = y + 14 + box.height > innerHeight ? y - 10 - box.height : y + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function hideTip() {
  tip.hidden = true;
}

function say(words) {
  byId("live").textContent = words;
}
