// Copyright (c) 2026, hpcai.azure contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Host lists and shell words for the nodes that a filter selects. A test compares both functions with Python's, which
// the page's commands are made with before a filter is set: compress of hostlist.py, and shlex.quote.

// Returns the names as one host list, in the same order: only consecutive names are folded.
function compress(names) {
  const groups = [];
  for (const name of names) {
    const match = /^(.*?)([0-9]{1,18})$/.exec(name);
    const [prefix, number] = match ? match.slice(1) : [name, ""];
    // Numbers with leading zeros are folded only with those of the same width.
    const width = !match ? -1 : number.startsWith("0") && number !== "0" ? number.length : 0;
    const last = groups.at(-1);
    if (last && last.prefix === prefix && last.width === width) last.numbers.push(number);
    else groups.push({ prefix, width, numbers: [number] });
  }
  const words = ({ prefix, width, numbers }) => (width < 0 || numbers.length === 1 ? numbers.map((number) => prefix + number) : [`${prefix}[${ranges(numbers)}]`]);
  return groups.flatMap(words).join(",");
}

function ranges(numbers) {
  const parts = [];
  let start = 0;
  numbers.forEach((number, place) => {
    // BigInt, because a number may have 18 digits.
    if (place + 1 < numbers.length && BigInt(numbers[place + 1]) === BigInt(number) + 1n) return;
    parts.push(start === place ? number : `${numbers[start]}-${number}`);
    start = place + 1;
  });
  return parts.join(",");
}

function quote(word) {
  if (!word) return "''";
  return /[^A-Za-z0-9_@%+=:,./-]/.test(word) ? `'${word.replaceAll("'", `'"'"'`)}'` : word;
}
