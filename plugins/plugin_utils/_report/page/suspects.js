// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Nodes without a hardware fault on physical hosts that had one before.
const SUSPECT_HEADS = ["Node", "Physical host", "Faulty", "As node", "Fault"];

function buildSuspects() {
  const section = byId("suspects");
  section.hidden = !suspects.length;
  if (!suspects.length) return;
  const heads = SUSPECT_HEADS.map((label) => make("th", { scope: "col", role: "columnheader" }, label));
  section.replaceChildren(
    make("h2", { id: "suspects-title" }, "On physical hosts with earlier hardware faults"),
    make("p", { class: "dim" }, `${many(suspects.length, "node")} without a hardware fault now. Watch them, or replace them.`),
    make("div", { class: "table-frame" }, make("table", { class: "suspects", role: "table" }, make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...heads)), make("tbody", { role: "rowgroup" }, ...suspects.flatMap(suspectRows)))),
  );
}

// One row per fault. The cells of node and host span all of their faults.
function suspectRows({ node, host, faults }) {
  return faults.map((fault, place) => {
    const cell = (column, rowSpan, ...content) => make("td", { role: "cell", rowSpan, "data-label": SUSPECT_HEADS[column] }, ...content);
    const own = place ? [] : [cell(0, faults.length, nodeButton(node)), cell(1, faults.length, host)];
    const when = fault.first === fault.last ? moment(fault.last) : `${moment(fault.first)} to ${moment(fault.last)}`;
    const where = [fault.device, fault.code].filter(Boolean).join(", ");
    const why = cell(4, 1, `${fault.check}: ${fault.summary}`, where ? make("span", { class: "dim" }, ` (${where})`) : "");
    return make("tr", { role: "row" }, ...own, cell(2, 1, when), cell(3, 1, fault.node), why);
  });
}
