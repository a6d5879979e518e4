#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# `make site` twice, and `make site-down`: the second time provision.yml and site.yml change nothing, and the teardown
# succeeds. Exits with 77 if a site runs already, because somebody may use it.
set -euo pipefail
cd "$(dirname "$0")/../.."

if grep -q '^site  up' <<<"$(PYTHONPATH=tests .venv/bin/python -m simulator list)"; then
    echo "a site runs already: make site-down"
    exit 77
fi
log=$(mktemp)
trap 'tests/setup/site.sh down || true; rm -f "$log"' EXIT
tests/setup/site.sh up
tests/setup/site.sh up | tee "$log"
# The steps 4 and 6 are provision.yml and site.yml.
recaps=$(sed -n '/^== [46]\/12 /,/^== [57]\/12 /p' "$log" | grep 'changed=')
if grep 'changed=[1-9]' <<<"$recaps"; then
    echo "site_check.sh: the second run of provision.yml or site.yml changed something, see above"
    exit 1
fi
tests/setup/site.sh down 2>&1 | tee "$log"
trap 'rm -f "$log"' EXIT
! grep -q '^teardown.yml failed' "$log"
