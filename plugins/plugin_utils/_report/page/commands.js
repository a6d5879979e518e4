// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Copies host lists, commands, CSV and JSON: of the nodes that the reader has filtered, or else of those that fail.
const CSV_COLUMNS = ["node", "slurm_name", "verdict", "check", "check_verdict", "summary", "action", "code", "vm_size", "physical_host", "vm_id", "azure_id"];

function selection() {
  const filtered = FILTERS.some((name) => state[name]);
  return { filtered, chosen: filtered ? shownNodes : nodes.filter((node) => node.state === "fail") };
}

function commandText({ before, prefix, folded, quoted, after }, chosen) {
  const usable = new Set(chosen.filter((node) => node.usable));
  if (!usable.size) return "";
  const inOrder = folded ? report.slurm_order.map((place) => nodes[place]) : nodes;
  const names = inOrder.filter((node) => usable.has(node)).map((node) => (folded ? node.slurmName : node.hostName));
  const word = prefix + (folded ? compress([...new Set(names)]) : names.join(","));
  return before + (quoted ? quote(word) : word) + after;
}

// One row for each check that found something, or one for a node without such a check.
function csvText(chosen) {
  const rows = chosen.flatMap((node) => {
    const found = node.results.filter((result) => !isGood(result.verdict));
    const identity = [node.size, node.host, node.vmId, node.azureId];
    const row = (check) => [node.hostName, node.slurmName, node.state, ...check, ...identity];
    if (!found.length) return [row(["", "", node.problem, "", ""])];
    return found.map((result) => row([result.name, result.verdict, result.summary, result.action, result.fault]));
  });
  return [CSV_COLUMNS, ...rows].map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

// A cell that starts with one of these signs would be a formula in a spreadsheet.
function csvCell(value) {
  const line = value.replace(/\s+/g, " ").trim().replace(/\p{C}/gu, "?");
  const harmless = /^[=+\-@]/.test(line) ? `'${line}` : line;
  return /[",]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}

// The nodes as in report.json, with only the checks that found something, and without values.
function jsonText(chosen) {
  const checks = (node) => node.results.filter((result) => !isGood(result.verdict)).map(({ name, verdict, summary, hint, action, fault, cause, limit, latched, findings }) => ({ name, verdict, summary, hint, action, fault, cause, limit, latched, findings }));
  const one = (node) => ({ host_name: node.hostName, slurm_name: node.slurmName, state: node.state, problem: node.problem, vm_size: node.size, host: node.host, vm_id: node.vmId, azure_id: node.azureId, time: node.time, checks: checks(node) });
  return `${JSON.stringify({ cluster: report.cluster, tier: report.tier, time: report.time, nodes: chosen.map(one) }, null, 2)}\n`;
}

function buildCommands() {
  const button = (label, textOf) => make("button", { type: "button", class: "quiet", onclick: (event) => copy(event.currentTarget, label, textOf(selection().chosen)) }, make("span", { class: "unseen" }, "Copy "), label);
  const commands = report.commands.map((command) => button(command.label, (chosen) => commandText(command, chosen)));
  byId("copy-buttons").replaceChildren(...commands, button("CSV", csvText), button("JSON", jsonText));
}

function drawCommands() {
  const { filtered, chosen } = selection();
  byId("copy").hidden = !chosen.length;
  const verb = `${filtered ? "match" : "fail"}${chosen.length !== 1 ? "" : filtered ? "es" : "s"}`;
  byId("copy-title").textContent = `Copy for ${many(chosen.length, "node")} that ${verb}${filtered ? " the filter" : ""}`;
  byId("copied").textContent = "";
  const without = chosen.filter((node) => !node.usable).length;
  byId("copy-without").hidden = !without;
  byId("copy-without").textContent = `${many(without, "node")} left out of the commands: a shell could interpret the name.`;
  byId("copy-texts").hidden = without === chosen.length;
  report.commands.forEach((command, place) => {
    byId(`command-${place}`).textContent = commandText(command, chosen);
    byId("copy-buttons").children[place].disabled = without === chosen.length;
  });
}

async function copy(button, label, words) {
  const done = await toClipboard(words);
  button.focus();
  byId("copied").textContent = done ? `Copied: ${label}, ${many(selection().chosen.length, "node")}` : "The browser does not allow copying. Select the command below, or use report.json.";
  if (!done) byId("copy-texts").open = true;
}

// A page that is not served by https or from a file has no clipboard, and only copies what is selected.
async function toClipboard(words) {
  try {
    await navigator.clipboard.writeText(words);
    return true;
  } catch {
    const area = make("textarea", { class: "unseen", value: words, readOnly: true, "aria-hidden": "true" });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
