// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The state of the view, kept in the address after the #, so that a link shows the same view to others.
const phone = matchMedia("(max-width: 700px)");
const DEFAULTS = { view: phone.matches ? "nodes" : "map", q: "", state: "", check: "", size: "", host: "", sort: "worst", node: "", theme: "", columns: "" };
const FILTERS = ["q", "state", "check", "size", "host"];
const VIEWS = { map: "Map", nodes: "Nodes", values: "Values" };
const SORTS = {
  worst: ["Worst first", (a, b) => STATES[a.state].order - STATES[b.state].order || badness(b) - badness(a)],
  name: ["Name", () => 0],
  size: ["VM size", (a, b) => byName(a.size, b.size)],
  host: ["Physical host", (a, b) => byName(a.host, b.host)],
  odd: ["Outliers", (a, b) => b.odd.length - a.odd.length],
  seconds: ["Slowest first", (a, b) => b.seconds - a.seconds],
};

let state = readAddress();
let shownNodes = choose();
const listeners = [];

function readAddress() {
  const read = { ...DEFAULTS };
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    if (key in DEFAULTS) read[key] = value;
  }
  if (!(read.view in VIEWS)) read.view = DEFAULTS.view;
  if (!(read.sort in SORTS)) read.sort = DEFAULTS.sort;
  return read;
}

function writeAddress() {
  const parts = new URLSearchParams();
  for (const key of Object.keys(DEFAULTS)) if (state[key] !== DEFAULTS[key]) parts.set(key, state[key]);
  history.replaceState(null, "", `#${parts}`);
}

function set(changes) {
  state = { ...state, ...changes };
  writeAddress();
  changed();
}

function changed() {
  shownNodes = choose();
  for (const listener of listeners) listener();
}

window.addEventListener("hashchange", () => {
  state = readAddress();
  changed();
});

function badness(node) {
  return node.results.reduce((sum, { verdict }) => sum + { fail: 1000, unknown: 30, warn: 1 }[verdict] || sum, 0);
}

function wantedStates() {
  return new Set(state.state ? state.state.split(",") : []);
}

function toggleState(name) {
  const wanted = wantedStates();
  if (!wanted.delete(name)) wanted.add(name);
  set({ state: [...wanted].join(",") });
}

// If a check is selected, the selected states apply to that check, otherwise to the node.
function choose() {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = wantedStates();
  const column = checkNames.indexOf(state.check);
  const stateOf = (node) => (column < 0 || node.state === "no_answer" ? node.state : (node.byCheck[column] || {}).verdict);
  const fits = (node) =>
    (!state.size || node.size === state.size) &&
    (!state.host || node.host === state.host) &&
    (column < 0 || node.byCheck[column] || node.state === "no_answer") &&
    (!wanted.size || wanted.has(stateOf(node))) &&
    words.every((word) => node.haystack.includes(word));
  const order = SORTS[state.sort][1];
  return nodes.filter(fits).sort((a, b) => order(a, b) || byName(a.hostName, b.hostName));
}

// The checks that are columns of the map.
function shownChecks() {
  if (state.check) return checkNames.map((name, place) => place).filter((place) => checkNames[place] === state.check);
  const all = checkNames.map((name, place) => place);
  if (state.columns !== "found") return all;
  return all.filter((place) => nodes.some((node) => node.byCheck[place] && ["fail", "warn", "unknown"].includes(node.byCheck[place].verdict)));
}
