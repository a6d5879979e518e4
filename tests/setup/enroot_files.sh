#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Prints a folder with the release files of enroot and pyxis. If there are none, prints only the reason, on stderr.
#
# HPCAI_ENROOT_FILES is this folder. If it is unset, the files are downloaded from where they are published; if it is
# empty, no files are used. No digests of these files are published, so the script prints those of the downloaded files.
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

# fetched URL FILE: download the file if it is missing; succeeds if it is there and complete.
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
