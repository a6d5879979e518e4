// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// One node: its identity, the results of its checks, what to do, and its values with the median of all nodes.
let opener = null;
const drawer = byId("drawer");

function drawNode() {
  const node = nodesByName.get(state.node);
  if (!node) {
    if (!drawer.hidden) closed();
    return;
  }
  if (drawer.hidden) opener = document.activeElement;
  const same = !drawer.hidden && drawer.node === node;
  drawer.node = node;
  drawer.hidden = false;
  document.body.classList.add("with-drawer");
  if (same) return;
  const close = make("button", { type: "button", class: "quiet close", "aria-label": "Close", onclick: () => set({ node: "" }) }, "✕");
  const identity = [
    ["Slurm's name", node.slurmName],
    ["Own name", node.name !== node.slurmName && node.name],
    ["VM size", node.size],
    ["Physical host", node.host],
    ["vmId", node.vmId],
    ["Image", node.image],
    ["Boot", node.bootId],
    ["Collection", node.collection],
    ["Checked", node.time && `${moment(node.time)}, in ${node.seconds.toFixed(1)} s`],
  ].filter((entry) => entry[1]);
  const order = (result) => STATES[result.verdict].order;
  const results = [...node.results].sort((a, b) => order(a) - order(b) || a.place - b.place);
  const oddPart = node.odd.length ? [make("h3", {}, "Outliers"), make("ul", { class: "odd-list" }, ...node.odd.map((odd) => make("li", {}, odd.why)))] : [];
  drawer.replaceChildren(
    make("div", { class: "drawer-head" }, make("div", {}, badge(node.state), make("h2", { tabIndex: -1, id: "drawer-title" }, node.hostName)), close),
    node.problem ? make("p", { class: "note is-no_answer" }, `This node gave no result: ${node.problem}.`) : "",
    make("dl", { class: "identity" }, ...identity.flatMap(([label, value]) => [make("dt", {}, label), make("dd", {}, value)])),
    node.portal ? make("p", { class: "links" }, link(node.portal, "Azure portal", `for ${node.hostName}`)) : "",
    ...oddPart,
    ...(results.length ? [make("h3", {}, many(results.length, "check"))] : []),
    ...results.map((result) => checkPart(node, result)),
  );
  drawer.scrollTop = 0;
  byId("drawer-title").focus({ preventScroll: true });
}

function closed() {
  drawer.hidden = true;
  drawer.node = null;
  document.body.classList.remove("with-drawer");
  if (opener && opener.isConnected) opener.focus({ preventScroll: true });
}

function checkPart(node, result) {
  const bad = !isGood(result.verdict);
  const notes = [];
  const action = Object.hasOwn(ACTIONS, result.action) ? ACTIONS[result.action] : result.action;
  if (bad && result.hint) notes.push(make("p", { class: "hint" }, result.hint));
  const marks = [bad && action && `action: ${action}`, result.fault && `code ${result.fault}`, bad && result.cause === "user" && "caused by a user's job", result.latched && "latched in an earlier run"].filter(Boolean);
  if (marks.length) notes.push(make("p", { class: "marks" }, ...marks.map((mark) => make("span", {}, mark))));
  if (result.limit) notes.push(make("p", { class: "dim" }, `Limit: ${result.limit}`));
  if (result.findings.length > 1 || (result.findings.length === 1 && result.findings[0].summary !== result.summary)) {
    notes.push(make("ul", { class: "findings" }, ...result.findings.map(findingItem)));
  }
  if (result.readings.length) notes.push(readingTable(node, result));
  const documentation = report.documentation[result.place];
  notes.push(make("p", { class: "dim links" }, make("span", {}, `took ${result.seconds.toFixed(2)} s`), documentation ? link(documentation, "Documentation", `of ${result.name}`) : ""));
  const head = make("summary", {}, symbol(result.verdict, STATES[result.verdict].label), make("span", { class: "check-name" }, result.name), make("span", { class: "check-summary" }, result.summary));
  return make("details", { class: `result is-${result.verdict}`, open: bad || state.check === result.name }, head, ...notes);
}

function findingItem(finding) {
  return make("li", {}, symbol(finding.verdict, STATES[finding.verdict].label), make("span", {}, finding.summary, finding.hint ? make("span", { class: "dim" }, ` ${finding.hint}`) : ""));
}

function readingTable(node, result) {
  const rows = result.readings.map(([place, device, value, limit]) => {
    const measure = measures[place];
    const odd = measure.odd.some((each) => each.node === node && each.device === text(device));
    return make(
      "tr",
      { class: odd ? "is-odd" : "" },
      make("td", {}, measure.reading),
      make("td", {}, text(device)),
      make("td", { class: "number" }, withUnit(value, measure.unit)),
      make("td", { class: "number dim" }, limit === null ? "" : `${measure.at_most ? "≤" : "≥"} ${show(limit)}`),
      make("td", { class: "number dim" }, measure.middle === null ? "" : show(measure.middle)),
    );
  });
  const heads = ["Reading", "Device", "Value", "Limit", "Median"].map((label, place) => make("th", { scope: "col", class: place > 1 ? "number" : "" }, label));
  return make("div", { class: "table-frame" }, make("table", { class: "readings" }, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)));
}
