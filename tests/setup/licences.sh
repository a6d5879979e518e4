#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Check that each file of the repository names its licence.
#
# It runs on a copy: reuse also walks through ignored folders, and fails if a running simulated node removes a folder in
# .simulator at that moment.
set -euo pipefail
cd "$(dirname "$0")/../.."
reuse=$PWD/.venv/bin/reuse
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
# A file that was deleted and is still in the index is left out.
git ls-files -z --cached --others --exclude-standard |
  tar --create --null --files-from=- --ignore-failed-read 2> /dev/null |
  tar --extract --directory="$copy"
cd "$copy"
"$reuse" lint --lines | sed "s|^$copy/||"
