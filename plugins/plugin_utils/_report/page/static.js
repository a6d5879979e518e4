// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Completes the part of the page that works without this script: buttons, local times, and folded cards on a phone.
function buildStatic() {
  for (const mark of document.querySelectorAll("[data-show]")) {
    const view = Object.fromEntries([...new URLSearchParams(mark.dataset.show)].filter(([name]) => name in DEFAULTS));
    mark.replaceWith(make("button", { type: "button", class: mark.className, onclick: () => openView(view) }, ...mark.childNodes));
  }
  for (const time of document.querySelectorAll("time")) time.textContent = moment(time.dateTime);
  if (phone.matches) for (const item of document.querySelectorAll(".node-item")) item.open = false;
  for (const id of ["theme", "tiles", "bar"]) byId(id).hidden = false;
}

// Opens a node with the filters as they are, and any other view with the default filters.
function openView(view) {
  set(view.node ? view : { ...DEFAULTS, theme: state.theme, ...view });
  if (!view.node) byId("bar").scrollIntoView();
}
