#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Succeeds if a folder has no package of enroot, or only stand-ins: those that stand_ins.enroot_pyxis builds.
# has_stand_ins.sh FOLDER
set -euo pipefail

for package in "$1"/enroot*.deb; do
  [ ! -e "$package" ] || [[ $(dpkg-deb --field "$package" Description 2> /dev/null) == "Stand-in for "* ]] || exit 1
done
