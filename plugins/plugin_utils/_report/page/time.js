// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Times in UTC with the reader's local time, and the age of the page.
const MINUTE = 60 * 1000;
const STALE = 24 * 60 * MINUTE;
const TOLERANCE = 5 * MINUTE;

function millisecondsOf(words) {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(words) ? Date.parse(words) : NaN;
}

function moment(words) {
  if (Number.isNaN(millisecondsOf(words))) return words;
  const utc = words.replace("T", " ").replace("Z", " UTC");
  const local = localTime(words);
  return local ? `${utc} (${local})` : utc;
}

// Returns the time in the reader's zone, with its date only if that differs. Empty if the zone is UTC.
function localTime(words) {
  const when = new Date(millisecondsOf(words));
  if (!when.getTimezoneOffset()) return "";
  const two = (number) => String(number).padStart(2, "0");
  const day = `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
  const clock = [when.getHours(), when.getMinutes(), when.getSeconds()].map(two).join(":");
  const parts = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(when);
  const zone = parts.find((part) => part.type === "timeZoneName").value;
  return `${words.startsWith(day) ? "" : `${day} `}${clock} ${zone}`;
}

// Returns a duration with its two largest units.
function duration(milliseconds) {
  const minutes = Math.floor(milliseconds / MINUTE);
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60) % 24];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return minutes ? `${minutes} min` : "less than 1 min";
}

function drawAge() {
  const age = Date.now() - millisecondsOf(report.time);
  const element = byId("age");
  const stale = age > STALE;
  element.classList.toggle("is-stale", stale || age < -TOLERANCE);
  if (Number.isNaN(age)) element.replaceChildren("age unknown");
  else if (age < -TOLERANCE) element.replaceChildren(symbol("warn"), ` ${duration(-age)} ahead of this computer's clock: the age is unknown`);
  else if (stale) element.replaceChildren(symbol("warn"), ` ${duration(age)} old: nodes may have changed since, run the checks again`);
  else element.replaceChildren(`${duration(Math.max(0, age))} old`);
}

// Timers stop while a computer sleeps, so the age is also drawn when the page becomes visible.
function buildAge() {
  drawAge();
  setInterval(drawAge, MINUTE);
  document.addEventListener("visibilitychange", drawAge);
}
