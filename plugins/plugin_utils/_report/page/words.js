// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Names, symbols and texts, which words.py defines. States must not be distinguished by colour alone.
const STATES = report.states;
const ACTIONS = report.actions;

const byName = new Intl.Collator("en", { numeric: true }).compare;

function many(count, word, plural) {
  return `${count.toLocaleString("en")} ${count === 1 ? word : plural || `${word}s`}`;
}

// Returns a number as readable text: four significant digits, no exponent.
function show(value) {
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) || Math.abs(value) >= 1000) {
    return value.toLocaleString("en", { maximumFractionDigits: 0 });
  }
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

function withUnit(value, unit) {
  return unit ? `${show(value)} ${unit}` : show(value);
}
