// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The nodes as a table, for reading, printing and screen readers.
const COLUMNS = [
  ["Node", "name", (node) => nodeButton(node)],
  ["Verdict", "worst", (node) => badge(node.state)],
  ["What", "", (node) => node.what || (node.odd.length ? many(node.odd.length, "outlier") : "")],
  ["VM size", "size", (node) => node.size],
  ["Physical host", "host", (node) => node.host],
  ["Outliers", "odd", (node) => (node.odd.length ? String(node.odd.length) : "")],
  ["Seconds", "seconds", (node) => (node.seconds ? node.seconds.toFixed(1) : "")],
];

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
    if (!sort) return make("th", { scope: "col" }, label);
    const active = state.sort === sort;
    const button = make("button", { type: "button", class: "sorter", onclick: () => set({ sort }) }, label, active ? " ▾" : "");
    return make("th", { scope: "col", "aria-sort": active ? "ascending" : "none" }, button);
  });
  const row = (node) => {
    const cells = COLUMNS.map(([label, sort, content]) => make("td", { class: label === "What" ? "what" : "" }, content(node)));
    const open = (event) => event.target.closest("button") || set({ node: node.hostName });
    return make("tr", { "data-node": node.hostName, class: node.hostName === state.node ? "is-open" : "", onclick: open }, ...cells);
  };
  const table = make("table", { class: "nodes" }, make("caption", { class: "unseen" }, "Nodes"), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...shownNodes.map(row)));
  view.replaceChildren(shownNodes.length ? make("div", { class: "table-frame" }, table) : make("p", { class: "empty" }, "No node matches this filter."));
}
