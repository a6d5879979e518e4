// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The report, unpacked from the page's data. pack() in html.py defines the format.
const report = JSON.parse(document.getElementById("data").textContent);
const text = (number) => report.texts[number];
const checkNames = report.checks;
const measures = report.measures.map((measure, place) => ({ ...measure, place, check: "", odd: [] }));
const nodes = report.nodes.map(unpackNode);
const nodesByName = new Map(nodes.map((node) => [node.hostName, node]));

const outliers = report.outliers.map(([measure, node, device, value, why]) => ({
  measure: measures[measure],
  node: nodes[node],
  device: text(device),
  value,
  why: text(why),
}));
for (const odd of outliers) {
  odd.measure.odd.push(odd);
  odd.node.odd.push(odd);
}

// Nodes on physical hosts that had hardware faults, with these faults, the latest first.
const suspects = report.suspects.map(([node, host, faults]) => ({ node: nodes[node], host: text(host), faults: faults.map(unpackPastFault) }));

function unpackPastFault(fault) {
  const [check, code, device, summary, node, first, last] = fault.map(text);
  return { check, code, device, summary, node, first, last };
}

function unpackNode(row, place) {
  const [hostName, name, vmId, size, host, image, bootId, collection, problem, time, state, azureId, slurmName, portal] = row.slice(0, 14).map(text);
  const [seconds, usable, packed] = row.slice(14);
  const results = packed.map(unpackCheck);
  const node = { place, hostName, name, vmId, size, host, image, bootId, collection, problem, time, state, azureId, slurmName, portal, seconds, results, odd: [] };
  // Whether its names can be part of a command.
  node.usable = Boolean(usable);
  node.byCheck = new Array(checkNames.length).fill(null);
  for (const result of results) node.byCheck[result.place] = result;
  node.what = whatIsWrong(node);
  node.brief = inBrief(node);
  node.haystack = haystackOf(node);
  return node;
}

function unpackCheck([place, verdict, summary, hint, action, fault, cause, limit, seconds, latched, findings, readings]) {
  const name = checkNames[place];
  for (const [measure] of readings) measures[measure].check = measures[measure].check || name;
  return {
    place,
    name,
    verdict: text(verdict),
    summary: text(summary),
    hint: text(hint),
    action: text(action),
    fault: text(fault),
    cause: text(cause),
    limit: text(limit),
    seconds,
    latched: Boolean(latched),
    findings: findings.map(unpackFinding),
    readings,
  };
}

function unpackFinding(finding) {
  const [verdict, device, summary, hint, action, fault, cause] = finding.map(text);
  return { verdict, device, summary, hint, action, fault, cause };
}

// The first check with the verdict of the node.
function whatIsWrong(node) {
  if (node.problem) return node.problem;
  if (isGood(node.state)) return "";
  const guilty = node.results.filter((result) => result.verdict === node.state);
  if (!guilty.length) return "";
  const more = guilty.length > 1 ? ` (and ${guilty.length - 1} more)` : "";
  return `${guilty[0].name}: ${guilty[0].summary}${more}`;
}

// The same in a few words, for a phone: why there is no result, the names of the checks, or what machine it is.
function inBrief(node) {
  if (node.problem) return node.problem.split(":")[0];
  if (isGood(node.state)) return [node.size, node.host].filter(Boolean).join(" · ");
  return node.results.filter((result) => result.verdict === node.state).map((result) => result.name).join(", ");
}

function isGood(verdict) {
  return verdict === "pass" || verdict === "skip";
}

function haystackOf(node) {
  const words = [node.hostName, node.slurmName, node.name, node.vmId, node.host, node.size, node.problem];
  for (const result of node.results) {
    if (!isGood(result.verdict)) words.push(result.name, result.summary, result.fault);
  }
  return words.join("\n").toLowerCase();
}

// All values of a measure, gathered at the first use, because most views do not need them.
const gathered = new Map();
function valuesOf(measure) {
  if (!gathered.size) {
    for (const one of measures) gathered.set(one.place, []);
    for (const node of nodes) {
      for (const result of node.results) {
        for (const [place, device, value] of result.readings) {
          gathered.get(place).push({ node, device: text(device), value });
        }
      }
    }
  }
  return gathered.get(measure.place) || [];
}
