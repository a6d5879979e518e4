#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Installs the real azcopy and Azurite, in the versions of tests/setup/blob/package-lock.json, into .cache/blob.
#
# Quick and without output if they are installed. Prints the folder. Exits with 77 if npm is missing or cannot download
# them, or if a library is missing that azcopy needs; the last line is the reason.
set -euo pipefail
cd "$(dirname "$0")/../.."

pins=tests/setup/blob folder=$PWD/.cache/blob
azcopy=$folder/node_modules/@azure-tools/azcopy-linux/dist/bin/azcopy_linux_amd64

mkdir -p "$folder"
# Several tests may call this script at the same time.
exec 9> "$folder/.lock"
flock 9
if ! cmp --quiet "$pins/package-lock.json" "$folder/.installed"; then
  command -v npm > /dev/null || {
    echo "npm is missing: tests/setup/host.sh installs it"
    exit 77
  }
  cp "$pins/package.json" "$pins/package-lock.json" "$folder"
  # Do not run the installation scripts of the packages: they are not needed.
  (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error > npm.log 2>&1) || {
    tail -n 5 "$folder/npm.log" >&2
    echo "npm cannot download azcopy and Azurite: its last lines are above"
    exit 77
  }
  chmod 0755 "$azcopy"
  cp "$pins/package-lock.json" "$folder/.installed"
fi
"$azcopy" --version > /dev/null 2>&1 || {
  echo "azcopy does not start: it requires x86-64 and libsecret-1-0, which tests/setup/host.sh installs"
  exit 77
}
echo "$folder"
