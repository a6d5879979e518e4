#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Fills folders in .cache with the packages of the node image. beegfs gets stand-ins; azcopy gets the real azcopy if it
# is available; enroot_pyxis gets the release files of enroot and pyxis if they are available (see enroot_files.sh),
# otherwise stand-ins. The last line of output says which.
set -euo pipefail
cd "$(dirname "$0")/../.."

PYTHONPATH=tests .venv/bin/python -m stand_ins.beegfs .cache/beegfs
PYTHONPATH=tests .venv/bin/python -m stand_ins.blob .cache/azcopy
folder=$PWD/.cache/enroot_pyxis

# In a Molecule scenario the variable already names this folder. Files that somebody gave stay as they are.
if [ -n "${HPCAI_ENROOT_FILES-}" ] && [ "$(realpath -m "$HPCAI_ENROOT_FILES")" = "$(realpath -m "$folder")" ]; then
  tests/setup/has_stand_ins.sh "$folder" || {
    echo "enroot and pyxis: the release files in $folder"
    exit 0
  }
  unset HPCAI_ENROOT_FILES
fi
given=$(tests/setup/enroot_files.sh)
if [ -n "$given" ]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "$given"/enroot*.deb "$given"/*.tar.gz "$folder"
  echo "enroot and pyxis: the release files of $given"
else
  tests/setup/has_stand_ins.sh "$folder" || rm -rf "$folder"
  PYTHONPATH=tests .venv/bin/python -m stand_ins.enroot_pyxis "$folder"
  echo "enroot and pyxis: stand-ins, because HPCAI_ENROOT_FILES names no folder with their release files"
fi
