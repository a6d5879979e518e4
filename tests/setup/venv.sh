#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Make the virtual environment the checks run in, or bring it up to date. A second run changes nothing.
#
#   tests/setup/venv.sh            .venv         everything, in the pinned versions of constraints.txt
#   tests/setup/venv.sh oldest     .venv-oldest  what the inventory tests need, in the oldest versions we support
#
# HPCAI_PYTHON        interpreter to use                        (default: the distribution's, 3.11 or newer)
# HPCAI_ANSIBLE_CORE  version of ansible-core, e.g. 2.20.1      (default: the newest for that interpreter)
set -euo pipefail
cd "$(dirname "$0")/../.."

flavour=${1:-main}
here=tests/setup
case $flavour in
  main) venv=.venv requirements=$here/requirements.in ;;
  oldest) venv=.venv-oldest requirements=$here/requirements-oldest.in ;;
  *)
    echo "venv.sh: '$flavour' is no environment; choose 'main' or 'oldest'" >&2
    exit 2
    ;;
esac
inputs=("$here/venv.sh" requirements.txt "$requirements" "$here/constraints.txt" "$here/constraints-oldest.txt")

say() { printf '[venv] %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

new_enough() {
  "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null
}

# The distribution's interpreter comes first: version managers put wrappers into PATH that ansible-test cannot use.
find_python() {
  local candidate
  for candidate in ${HPCAI_PYTHON:+"$HPCAI_PYTHON"} /usr/bin/python3 /usr/bin/python3.1[1-9] python3.14 python3.13 python3.12 python3.11; do
    candidate=$(command -v "$candidate") || continue
    if new_enough "$candidate"; then
      echo "$candidate"
      return
    fi
    if [ -n "${HPCAI_PYTHON:-}" ]; then
      break
    fi
  done
  return 1
}

if ! python=$(find_python); then
  if [ -n "${HPCAI_PYTHON:-}" ]; then
    echo "venv.sh: HPCAI_PYTHON=$HPCAI_PYTHON is no Python 3.11 or newer; name another or unset it" >&2
    exit 1
  fi
  if ! command -v apt-get >/dev/null; then
    echo "venv.sh: no Python 3.11 or newer found; install one and name it with HPCAI_PYTHON=/path/to/python3" >&2
    exit 1
  fi
  say "no Python 3.11 or newer found: installing the distribution's"
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python3 python3-venv
  python=$(find_python) || {
    echo "venv.sh: this distribution's Python is older than 3.11; install a newer one, name it with HPCAI_PYTHON" >&2
    exit 1
  }
fi
version=$("$python" -c 'import platform; print(platform.python_version())')

hash=$(
  { cat "${inputs[@]}"; echo "$python $version ${HPCAI_ANSIBLE_CORE:-}"; } | sha256sum | cut -d' ' -f1
)
if [ "$(cat "$venv/.ready" 2>/dev/null)" = "$hash" ]; then
  say "$venv is up to date (Python $version)"
  exit 0
fi

if ! "$python" -c 'import ensurepip' 2>/dev/null; then
  if ! command -v apt-get >/dev/null; then
    echo "venv.sh: $python has no ensurepip; install your distribution's package for Python's venv module" >&2
    exit 1
  fi
  say "installing python3-venv, which $python lacks"
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python3-venv
fi

if [ "$("$venv/bin/python" -c 'import platform; print(platform.python_version())' 2>/dev/null)" != "$version" ]; then
  say "making $venv with $python ($version)"
  rm -rf "$venv"
  "$python" -m venv "$venv"
fi
rm -f "$venv/.ready"

# Pins that this flavour or the caller replaces are left out of the constraints.
constraints=$venv/constraints.txt
pin_over() { # file with "name==version" lines that win over those in $constraints
  awk -F'==' 'function key(s) { s = tolower(s); gsub(/[-_.]+/, "-", s); return s }
    NR == FNR { if ($0 ~ /^[A-Za-z]/) won[key($1)]; else next; print; next }
    !(key($1) in won)' "$1" "$constraints" >"$constraints.new"
  mv "$constraints.new" "$constraints"
}
cp "$here/constraints.txt" "$constraints"
if [ "$flavour" = oldest ]; then
  pin_over "$here/constraints-oldest.txt"
fi
if [ -n "${HPCAI_ANSIBLE_CORE:-}" ]; then
  echo "ansible-core==$HPCAI_ANSIBLE_CORE" >"$venv/override.txt"
  pin_over "$venv/override.txt"
fi

say "installing $requirements into $venv (one to three minutes the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade-strategy only-if-needed \
  --constraint "$constraints" --requirement "$requirements"
echo "$hash" >"$venv/.ready"
say "$venv is ready: Python $version, $("$venv/bin/ansible" --version | head -n 1)"
