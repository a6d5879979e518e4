// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Builds the page, and records in the document how long that took.
const dark = matchMedia("(prefers-color-scheme: dark)");

function drawBar() {
  const tab = ([name, label]) =>
    make("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(state.view === name), "aria-controls": `view-${name}`, tabIndex: state.view === name ? 0 : -1, onclick: () => set({ view: name }) }, label);
  const focused = document.activeElement && document.activeElement.getAttribute("role") === "tab";
  byId("tabs").replaceChildren(...Object.entries(VIEWS).map(tab));
  if (focused) byId(`tab-${state.view}`).focus();
  for (const name of Object.keys(VIEWS)) byId(`view-${name}`).hidden = state.view !== name;
  for (const name of ["q", "check", "size", "host", "sort"]) if (byId(name).value !== state[name]) byId(name).value = state[name];
  byId("shown").textContent = shownNodes.length === nodes.length ? many(nodes.length, "node") : `${shownNodes.length} of ${many(nodes.length, "node")}`;
  const active = FILTERS.filter((name) => state[name]).length;
  byId("reset").disabled = !active && state.sort === DEFAULTS.sort;
  byId("filters-button").textContent = active ? `Filters (${active})` : "Filters";
}

function applyTheme() {
  const wanted = state.theme || (dark.matches ? "dark" : "light");
  const before = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = wanted;
  byId("theme").textContent = wanted === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Show the page ${wanted === "dark" ? "light" : "dark"}`);
  if (before !== wanted) palette = readPalette();
}

function buildBar() {
  const values = (of) => [...new Set(nodes.map(of))].filter(Boolean).sort(byName).map((value) => [value, value]);
  fillSelect("check", [...checkNames].map((name) => [name, name]), "all");
  fillSelect("size", values((node) => node.size), "all");
  fillSelect("host", values((node) => node.host), "all");
  fillSelect("sort", Object.entries(SORTS).map(([name, [label]]) => [name, label]));
  for (const name of ["check", "size", "host", "sort"]) byId(name).addEventListener("change", (event) => set({ [name]: event.target.value }));
  byId("q").addEventListener("input", (event) => set({ q: event.target.value }));
  byId("reset").addEventListener("click", () => set({ q: "", state: "", check: "", size: "", host: "", sort: DEFAULTS.sort }));
  byId("filters-button").addEventListener("click", (event) => {
    const expanded = event.target.getAttribute("aria-expanded") !== "true";
    event.target.setAttribute("aria-expanded", String(expanded));
    byId("filters").classList.toggle("is-open", expanded);
  });
  byId("theme").addEventListener("click", () => set({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" }));
  byId("tabs").addEventListener("keydown", (event) => {
    const names = Object.keys(VIEWS);
    const step = { ArrowRight: 1, ArrowLeft: names.length - 1 }[event.key];
    if (step) set({ view: names[(names.indexOf(state.view) + step) % names.length] });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.node) set({ node: "" });
    if (event.key === "/" && !event.target.closest("input, select")) {
      event.preventDefault();
      byId("q").focus();
    }
  });
}

function drawAll() {
  applyTheme();
  drawTiles();
  drawCommands();
  drawBar();
  drawNode();
  drawMap();
  drawNodes(false);
  drawValues();
}

buildStatic();
buildAge();
buildSuspects();
buildCommands();
buildBar();
buildMap();
listeners.push(drawAll);
drawAll();
dark.addEventListener("change", drawAll);
// For printing, fill the table of nodes, whatever view the screen shows.
window.addEventListener("beforeprint", () => drawNodes(true));
// Force the layout here, so that the measured time includes it.
document.documentElement.dataset.height = String(document.body.offsetHeight);
document.documentElement.dataset.usable = performance.now().toFixed(0);
requestAnimationFrame(() => requestAnimationFrame(() => (document.documentElement.dataset.painted = performance.now().toFixed(0))));
