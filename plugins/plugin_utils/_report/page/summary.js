// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The summary at the top: counts, and what to look at.
const MOST_CHIPS = 8;

function buildHead() {
  const { counts } = report;
  const where = [report.cluster, `tier ${report.tier}`, report.limit && `limited to ${report.limit}`].filter(Boolean);
  byId("over").textContent = `Cluster health · ${where.join(" · ")}`;
  const bad = counts.fail;
  const silent = counts.no_answer;
  const parts = [];
  if (bad) parts.push(`${bad === nodes.length ? `All ${nodes.length}` : `${bad} of ${nodes.length}`} nodes fail`);
  if (silent) parts.push(`${many(silent, "node")} gave no answer`);
  if (!parts.length && counts.unknown) parts.push(`${many(counts.unknown, "node")} could not be measured`);
  if (!parts.length) parts.push(nodes.length ? `No node of ${nodes.length} fails` : "No node was checked");
  byId("headline").textContent = parts.join(", ");
  const version = report.collection ? ` by hpcai.azure ${report.collection}` : "";
  byId("under").textContent = `${many(nodes.length, "node")}, ${many(checkNames.length, "check")}, ${moment(report.time)}${version}`;
}

function drawTiles() {
  const wanted = wantedStates();
  const tile = (name) => {
    const share = nodes.length ? (report.counts[name] / nodes.length) * 100 : 0;
    const fill = make("i", { class: `is-${name}` });
    fill.style.width = `${share}%`;
    return make(
      "button",
      { type: "button", class: `tile is-${name}${report.counts[name] ? "" : " is-none"}`, "aria-pressed": String(wanted.has(name)), onclick: () => toggleState(name), title: `Show nodes that are ${STATES[name].label} (${STATES[name].means})`, "data-state": name },
      make("span", { class: "tile-count" }, symbol(name), report.counts[name].toLocaleString("en")),
      make("span", { class: "tile-label" }, STATES[name].label),
      make("span", { class: "tile-bar" }, fill),
    );
  };
  byId("tiles").replaceChildren(...Object.keys(STATES).map(tile));
}

// Failures per check, the worst first, then shared physical hosts and outliers.
function buildTodo() {
  const items = [];
  const silent = nodes.filter((node) => node.state === "no_answer");
  if (silent.length) items.push(todoItem("no_answer", "No answer", silent, silent[0].problem, () => set({ ...DEFAULTS, theme: state.theme, state: "no_answer" }), ""));
  for (const verdict of ["fail", "unknown", "warn"]) items.push(...checkNames.flatMap((name, place) => todoOfCheck(verdict, name, place)));
  items.sort((a, b) => a.order - b.order || b.count - a.count);
  const shared = sharedHosts().map(([host, found]) => todoItem("fail", `Physical host ${host}`, found, "has several failing nodes: the host may be faulty", () => set({ ...DEFAULTS, theme: state.theme, host }), ""));
  const elements = [...shared, ...items].map((item) => item.element);
  if (outliers.length) elements.push(oddItem());
  if (!elements.length && !suspects.length) elements.push(make("li", { class: "todo-item is-pass" }, symbol("pass"), make("span", { class: "todo-words" }, make("strong", {}, "Nothing to do"), "All nodes answered, no check found a problem, and there are no outliers.")));
  const most = 9;
  const list = make("ul", { class: "todo-list" }, ...elements.slice(0, most));
  const parts = [make("h2", { id: "todo-title" }, "What to look at"), list];
  if (elements.length > most) {
    const more = make("details", { class: "todo-more" }, make("summary", {}, `${elements.length - most} more`), make("ul", { class: "todo-list" }, ...elements.slice(most)));
    parts.push(more);
  }
  byId("todo").replaceChildren(...parts);
  byId("todo").hidden = !elements.length;
}

function todoOfCheck(verdict, name, place) {
  const found = nodes.filter((node) => node.byCheck[place] && node.byCheck[place].verdict === verdict);
  if (!found.length) return [];
  const result = found[0].byCheck[place];
  const action = Object.hasOwn(ACTIONS, result.action) ? ACTIONS[result.action] : result.action;
  const first = found.length === 1 ? result.summary : result.hint || result.summary;
  const helps = verdict !== "unknown" && action && `Action: ${action}`;
  const words = [first, helps, result.fault].filter(Boolean).map((part) => part.replace(/[.\s]+$/, "")).join(". ");
  return [todoItem(verdict, name, found, words, () => set({ ...DEFAULTS, theme: state.theme, check: name, state: verdict }))];
}

function todoItem(verdict, title, found, words, show, label) {
  const chips = found.slice(0, MOST_CHIPS).map((node) => nodeButton(node));
  if (found.length > MOST_CHIPS) chips.push(make("button", { type: "button", class: "chip more", onclick: show }, `+ ${found.length - MOST_CHIPS}`));
  const head = make("button", { type: "button", class: "todo-title", onclick: show }, title);
  const element = make("li", { class: `todo-item is-${verdict}` }, symbol(verdict, STATES[verdict].label), make("div", { class: "todo-words" }, make("p", {}, head, make("span", { class: "dim" }, ` ${label ?? STATES[verdict].label} on ${many(found.length, "node")}`)), make("p", { class: "todo-why" }, words), make("div", { class: "chips" }, ...chips)));
  return { element, order: STATES[verdict].order, count: found.length };
}

function oddItem() {
  const found = [...new Set(outliers.map((odd) => odd.node))].sort((a, b) => b.odd.length - a.odd.length);
  const words = outliers.length === 1 ? outliers[0].why : "Values far from the median of all nodes of the same VM size. They may still be within the limits.";
  const item = todoItem("warn", many(outliers.length, "outlier"), found, words, () => set({ ...DEFAULTS, theme: state.theme, view: "values" }), "");
  return item.element;
}

function sharedHosts() {
  const byHost = new Map();
  for (const node of nodes) if (node.state === "fail" && node.host) byHost.set(node.host, [...(byHost.get(node.host) || []), node]);
  return [...byHost].filter(([, found]) => found.length > 1);
}
