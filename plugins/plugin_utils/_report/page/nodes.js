// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The nodes as a table, for reading, printing and screen readers.
// On a phone a row is a card of two lines: node and verdict, and below them the problem in brief.
const COLUMNS = [
  ["Node", "name", (node) => nodeButton(node), ""],
  ["Verdict", "worst", (node) => badge(node.state), ""],
  ["What", "", whatParts, "what"],
  ["VM size", "size", (node) => node.size, "more"],
  ["Physical host", "host", (node) => node.host, "more"],
  ["Outliers", "odd", (node) => (node.odd.length ? String(node.odd.length) : ""), "more"],
  ["Seconds", "seconds", (node) => (node.seconds ? node.seconds.toFixed(1) : ""), "more"],
];

function whatParts(node) {
  const odd = node.odd.length ? many(node.odd.length, "outlier") : "";
  const brief = (isGood(node.state) && odd) || node.brief;
  return make("span", {}, make("span", { class: "full" }, node.what || odd), make("span", { class: "brief" }, brief));
}

function drawNodes(always) {
  if (state.view !== "nodes" && !always) return;
  const view = byId("view-nodes");
  const key = JSON.stringify(["q", "state", "check", "size", "host", "sort"].map((name) => state[name]));
  if (view.dataset.key === key) {
    for (const row of view.querySelectorAll("tbody tr")) row.classList.toggle("is-open", row.dataset.node === state.node);
    return;
  }
  view.dataset.key = key;
  const heads = COLUMNS.map(([label, sort]) => {
    if (!sort) return make("th", { scope: "col", role: "columnheader" }, label);
    const active = state.sort === sort;
    const button = make("button", { type: "button", class: "sorter", onclick: () => set({ sort }) }, label, active ? " ▾" : "");
    return make("th", { scope: "col", role: "columnheader", "aria-sort": active ? "ascending" : "none" }, button);
  });
  const row = (node) => {
    const cells = COLUMNS.map(([, , content, kind]) => make("td", { class: kind, role: "cell" }, content(node)));
    const open = (event) => event.target.closest("button") || set({ node: node.hostName });
    return make("tr", { role: "row", "data-node": node.hostName, class: node.hostName === state.node ? "is-open" : "", onclick: open }, ...cells);
  };
  // With explicit roles, because browsers drop those of a table that a style displays as blocks.
  const head = make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...heads));
  const table = make("table", { class: "nodes", role: "table" }, make("caption", { class: "unseen" }, "Nodes"), head, make("tbody", { role: "rowgroup" }, ...shownNodes.map(row)));
  view.replaceChildren(shownNodes.length ? make("div", { class: "table-frame" }, table) : make("p", { class: "empty" }, "No node matches this filter."));
}
