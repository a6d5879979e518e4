#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Create or update a virtual environment for the checks. A second run changes nothing.
#
#   tests/setup/venv.sh            .venv         everything, in the pinned versions of constraints.txt
#   tests/setup/venv.sh oldest     .venv-oldest  what the inventory tests need, in the oldest supported versions
#   tests/setup/venv.sh newest     .venv-newest  the same with the newest ansible-core; exits with 77, and the reason in
#                                                the last line, if .venv already has it or there is no Python for it
#
# HPCAI_PYTHON        interpreter to use                        (default: the distribution's, 3.11 or newer)
# HPCAI_ANSIBLE_CORE  ansible-core of .venv, e.g. 2.20.1        (default: the newest for that interpreter)
set -euo pipefail
cd "$(dirname "$0")/../.."

flavour=${1:-main}
here=tests/setup
requirements=$here/requirements-matrix.in
# The newest ansible-core needs Python 3.12.
oldest_python=3.11
case $flavour in
  main) venv=.venv requirements=$here/requirements.in ;;
  oldest) venv=.venv-oldest ;;
  newest) venv=.venv-newest oldest_python=3.12 ;;
  *)
    echo "venv.sh: '$flavour' is not an environment; choose 'main', 'oldest' or 'newest'" >&2
    exit 2
    ;;
esac
inputs=("$here/venv.sh" requirements.txt "$requirements" "$here/constraints.txt" "$here/constraints-oldest.txt")

say() { printf '[venv] %s\n' "$*"; }

die() {
  printf 'venv.sh: %s\n' "$*" >&2
  exit 1
}

new_enough() {
  "$1" -c "import sys; raise SystemExit(sys.version_info < (${oldest_python/./, }))" 2>/dev/null
}

# Prefer the distribution's interpreter: version managers put wrappers into PATH that ansible-test cannot use.
find_python() {
  local candidate candidates=(/usr/bin/python3 /usr/bin/python3.1[1-9] python3.14 python3.13 python3.12 python3.11
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[1-9]*/bin/python3)
  if [ -n "${HPCAI_PYTHON:-}" ] && [ "$flavour" != newest ]; then
    candidates=("$HPCAI_PYTHON")
  fi
  for candidate in "${candidates[@]}"; do
    if candidate=$(command -v "$candidate") && new_enough "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

install_packages() {
  command -v apt-get >/dev/null || die "needs $*, and this is neither Debian nor Ubuntu: install them, then run this again"
  say "installing the distribution's packages: $*"
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "needs $*: install them as root (there is no sudo here), then run this again"
    root=(sudo)
  fi
  "${root[@]}" apt-get update -q
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

if [ "$flavour" = newest ] && [ -x .venv/bin/python ] && new_enough .venv/bin/python; then
  echo ".venv already has the newest ansible-core"
  exit 77
fi
if ! python=$(find_python); then
  if [ "$flavour" = newest ]; then
    echo "the newest ansible-core needs Python $oldest_python, which is not installed"
    exit 77
  fi
  [ -z "${HPCAI_PYTHON:-}" ] || die "HPCAI_PYTHON=$HPCAI_PYTHON is not a Python $oldest_python or newer; name another one"
  install_packages python3 python3-venv
  python=$(find_python) || die "found no Python $oldest_python or newer; install one, or name one with HPCAI_PYTHON"
fi
version=$("$python" -c 'import platform; print(platform.python_version())')

describe() { # print the environment's versions in one line
  local core
  core=$("$venv/bin/python" -c 'from ansible.release import __version__ as version; print(version)')
  say "$venv $1: Python $version, ansible-core $core"
}

hash=$({ cat "${inputs[@]}"; echo "$python $version ${HPCAI_ANSIBLE_CORE:-}"; } | sha256sum | cut -d' ' -f1)
if [ "$(cat "$venv/.ready" 2>/dev/null)" = "$hash" ]; then
  describe "is up to date"
  exit 0
fi

"$python" -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
if [ "$("$venv/bin/python" -c 'import platform; print(platform.python_version())' 2>/dev/null)" != "$version" ]; then
  say "creating $venv with $python ($version)"
  rm -rf "$venv"
  "$python" -m venv "$venv"
fi
rm -f "$venv/.ready"

# Remove pins from the constraints that this flavour or the caller replaces.
constraints=$venv/constraints.txt
pin_over() { # file with "name==version" lines that replace those in $constraints
  awk -F'==' 'function key(s) { s = tolower(s); gsub(/[-_.]+/, "-", s); return s }
    NR == FNR { if ($0 ~ /^[A-Za-z]/) won[key($1)]; else next; print; next }
    !(key($1) in won)' "$1" "$constraints" >"$constraints.new"
  mv "$constraints.new" "$constraints"
}
cp "$here/constraints.txt" "$constraints"
if [ "$flavour" = oldest ]; then
  pin_over "$here/constraints-oldest.txt"
elif [ "$flavour" = main ] && [ -n "${HPCAI_ANSIBLE_CORE:-}" ]; then
  echo "ansible-core==$HPCAI_ANSIBLE_CORE" >"$venv/override.txt"
  pin_over "$venv/override.txt"
fi

say "installing $requirements into $venv (up to three minutes the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --constraint "$constraints" --requirement "$requirements"
echo "$hash" >"$venv/.ready"
describe "is ready"
