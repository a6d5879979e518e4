#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The tests on the emulated machine: host packages, its image, then pytest. Arguments are passed on to pytest:
#
#   tests/setup/hardware.sh -k refuses -x
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ "$(uname -m)" != x86_64 ]; then
  echo "the emulated machine requires x86-64; this is $(uname -m)"
  exit 77
fi
tests/setup/host.sh
PYTHONPATH=tests .venv/bin/python -m hardware.image
exec .venv/bin/python -m pytest tests/hardware -v --durations=30 "$@"
