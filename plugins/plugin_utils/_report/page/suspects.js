// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Nodes without a hardware fault on physical hosts that had one before.
function buildSuspects() {
  const section = byId("suspects");
  section.hidden = !suspects.length;
  if (!suspects.length) return;
  const heads = ["Node", "Physical host", "Faulty", "As node", "Fault"].map((label) => make("th", { scope: "col" }, label));
  section.replaceChildren(
    make("h2", { id: "suspects-title" }, "On physical hosts with earlier hardware faults"),
    make("p", { class: "dim" }, `${many(suspects.length, "node")} without a hardware fault now. Watch them, or replace them.`),
    make("div", { class: "table-frame" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...suspects.flatMap(suspectRows)))),
  );
}

// One row per fault. The cells of node and host span all of their faults.
function suspectRows({ node, host, faults }) {
  return faults.map((fault, place) => {
    const own = place ? [] : [make("td", { rowSpan: faults.length }, nodeButton(node)), make("td", { rowSpan: faults.length }, host)];
    const when = fault.first === fault.last ? moment(fault.last) : `${moment(fault.first)} to ${moment(fault.last)}`;
    const where = [fault.device, fault.code].filter(Boolean).join(", ");
    const why = make("td", {}, `${fault.check}: ${fault.summary}`, where ? make("span", { class: "dim" }, ` (${where})`) : "");
    return make("tr", {}, ...own, make("td", {}, when), make("td", {}, fault.node), why);
  });
}
