#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Build the documentation site from the plugins, the roles and docs/docsite. Needs .venv (make setup).
set -euo pipefail
cd "$(dirname "$0")/../.."

export PATH=$PWD/.venv/bin:$PATH ANSIBLE_COLLECTIONS_PATH=$PWD/.collections
site=.cache/docs
rm -rf "$site"
mkdir -p "$site"
# Lenient: links to Ansible's own documentation stay unresolved if it cannot be reached.
antsibull-docs sphinx-init --dest-dir "$site" --use-current --squash-hierarchy --fail-on-error --lenient \
  --project hpcai.azure --title hpcai.azure --html-short-title hpcai.azure --copyright 'hpcai.azure contributors' \
  hpcai.azure >/dev/null
(cd "$site" && bash ./build.sh)
[ -f "$site/build/html/index.html" ] || {
  echo "docs.sh: Sphinx did not write $site/build/html/index.html; see its messages above" >&2
  exit 1
}
echo "[docs] open $site/build/html/index.html"
