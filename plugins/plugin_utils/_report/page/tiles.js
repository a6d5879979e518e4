// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// The number of nodes per verdict. Each number is a filter.
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
