#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Prints a folder with the release files of enroot and pyxis, or nothing where there are none; says why on stderr.
#
# HPCAI_ENROOT_FILES names one. If that is unset, the files are fetched from where they are published, where that can be
# reached; if it is empty, there shall be none. Nobody publishes digests of them, so what was fetched is told with its own.
set -euo pipefail
cd "$(dirname "$0")/../.."

base=${HPCAI_ENROOT_URL:-https://github.com/NVIDIA}
enroot=4.1.2 pyxis=0.24.0
folder=$PWD/.cache/enroot_release

if [ -n "${HPCAI_ENROOT_FILES+given}" ]; then
  [ -z "$HPCAI_ENROOT_FILES" ] || [ -d "$HPCAI_ENROOT_FILES" ] || {
    echo "HPCAI_ENROOT_FILES=$HPCAI_ENROOT_FILES: there is no such folder" >&2
    exit 1
  }
  [ -z "$HPCAI_ENROOT_FILES" ] || realpath "$HPCAI_ENROOT_FILES"
  exit 0
fi

# fetched URL FILE: whether the file is there, complete.
fetched() {
  [ -s "$folder/$2" ] || {
    curl --fail --silent --location --connect-timeout 5 --max-time 300 --output "$folder/$2.part" "$base/$1" &&
      mv "$folder/$2.part" "$folder/$2"
  }
}

mkdir -p "$folder"
package=enroot_$enroot-1_$(dpkg --print-architecture).deb
if fetched "enroot/releases/download/v$enroot/$package" "$package" &&
  fetched "pyxis/archive/refs/tags/v$pyxis.tar.gz" "v$pyxis.tar.gz"; then
  (cd "$folder" && sha256sum "$package" "v$pyxis.tar.gz") >&2
  echo "$folder"
else
  echo "the release files of enroot and pyxis cannot be fetched from $base" >&2
fi
