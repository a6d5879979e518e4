#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Check every shell script that git tracks or would add: files named *.sh, and files that start with a shell's #! line.
# A template is not one before it is rendered.
set -euo pipefail
cd "$(dirname "$0")/../.."

scripts=()
while IFS= read -r -d '' file; do
  if [ -f "$file" ] && [ ! -L "$file" ] && [[ $file != *.j2 ]] && { [[ $file == *.sh ]] || head -n 1 "$file" | grep -qE '^#!.*\b(ba)?sh\b'; }; then
    scripts+=("$file")
  fi
done < <(git ls-files -z --cached --others --exclude-standard --deduplicate)
[ ${#scripts[@]} -gt 0 ] || {
  echo "shellcheck.sh: found no shell script; something is wrong with the search" >&2
  exit 1
}
printf '%s\n' "${scripts[@]}"
shellcheck --external-sources "${scripts[@]}"
