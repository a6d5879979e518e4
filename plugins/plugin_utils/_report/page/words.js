// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Names and symbols of the states, which must not be distinguished by colour alone.
const STATES = {
  fail: { label: "fail", order: 0, path: "M4 4l8 8M12 4l-8 8", means: "has a problem" },
  no_answer: { label: "no answer", order: 1, path: "M3.5 12.5l9-9M8 2.5a5.5 5.5 0 1 0 .01 0", means: "gave no result" },
  unknown: { label: "unknown", order: 2, path: "M5.3 6a2.7 2.7 0 1 1 4.2 2.2C8.5 8.900 8 9.300 8 10.300M8 13v.3", means: "could not be measured" },
  warn: { label: "warn", order: 3, path: "M8 2.500l6 11H2zM8 6.800v3M8 11.800v.2", means: "needs attention, jobs may run" },
  pass: { label: "pass", order: 4, path: "M3.500 8.500l3 3 6-7", means: "no problem" },
  skip: { label: "skip", order: 5, path: "M5 8h6", means: "does not apply" },
};

// Texts for the actions of checks.
const ACTIONS = {
  nothing: "",
  observe: "observe it",
  reset_gpu: "reset the GPU",
  reboot: "restart the machine",
  replace: "redeploy or replace the instance",
};

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

function moment(text) {
  return text.replace("T", " ").replace("Z", " UTC");
}
