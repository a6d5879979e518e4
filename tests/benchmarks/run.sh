#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Run the benchmark of the inventory, or the one that the first argument names (`run.sh pinning`). Options are passed
# on; --help lists them.
#
# The first run makes .venv-bench with azure_rm and the packages that its collection requires (about 1.5 GB, three
# minutes). `run.sh --no-azure-rm` does not need it.
set -euo pipefail
cd "$(dirname "$0")/../.."

here=tests/benchmarks
venv=.venv-bench

say() { printf '[bench] %s\n' "$*" >&2; }

die() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 1
}

[ -x .venv/bin/python ] || die ".venv is missing: run 'make setup' first"

case "${1-}" in
  [a-z]*)
    name=$1
    shift
    PYTHONPATH=tests:.collections exec .venv/bin/python -m "benchmarks.$name" "$@"
    ;;
esac

make_environment() {
  local core hash
  core=$(.venv/bin/python -c 'from ansible.release import __version__ as version; print(version)')
  hash=$({ cat "$here/run.sh" "$here/requirements.txt" "$here/azcollection.py"; echo "$core"; } | sha256sum | cut -d' ' -f1)
  if [ "$(cat "$venv/.ready" 2>/dev/null)" = "$hash" ]; then
    return
  fi
  say "making $venv with azure_rm and its requirements (about 1.5 GB, three minutes)"
  [ -x "$venv/bin/python" ] || .venv/bin/python -m venv "$venv"
  rm -f "$venv/.ready"
  "$venv/bin/python" "$here/azcollection.py" "$here/requirements.txt" "$venv/collections"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --requirement "$venv/collections/ansible_collections/azure/azcollection/requirements.txt" "ansible-core==$core"
  echo "$hash" >"$venv/.ready"
}

case " $* " in
  *" --no-azure-rm "* | *" --help "* | *" -h "*) ;;
  *) make_environment ;;
esac

PYTHONPATH=tests exec .venv/bin/python -m benchmarks.inventory "$@"
