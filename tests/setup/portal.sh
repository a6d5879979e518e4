#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Installs the portal's JupyterHub and proxy, in the versions of the role portal, into .cache/portal/programs.
#
# Quick and without output if they are installed. Prints the folder. Exits with 77 if pip or npm cannot download them;
# the last line is the reason. Several tests may call this script at the same time.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$PWD/.cache/portal/programs
requirements=roles/portal/files/requirements.txt
proxy=$(sed -n 's/^__portal_proxy_version: //p' roles/portal/vars/main/main.yml)

mkdir -p "$folder"
exec 9> "$folder/.lock"
flock 9
wanted=$(echo "$proxy" | cat - "$requirements")
if [ "$wanted" != "$(cat "$folder/.installed" 2> /dev/null)" ]; then
  command -v npm > /dev/null || {
    echo "npm is missing: tests/setup/host.sh installs it"
    exit 77
  }
  rm -rf "$folder/hub" "$folder/proxy"
  .venv/bin/python -m venv "$folder/hub" > "$folder/log" 2>&1
  {
    "$folder/hub/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: \
      --requirement "$requirements" &&
      npm install --prefix "$folder/proxy" --ignore-scripts --no-audit --no-fund --loglevel=error \
        "configurable-http-proxy@$proxy"
  } >> "$folder/log" 2>&1 || {
    tail -n 5 "$folder/log" >&2
    echo "pip or npm cannot download the portal's programs: the last lines are above"
    exit 77
  }
  echo "$wanted" > "$folder/.installed"
fi
echo "$folder"
