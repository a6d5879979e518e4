#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes a small image of a few programs of this machine, with its own os-release:
# make_image.sh FILE.sqsh [SOURCE:TARGET]...
# Each SOURCE, a program or folder of this machine, is copied to TARGET in the image, with the libraries that it needs.

set -euo pipefail

image="$1"
root="$(mktemp -d)"
trap 'rm -rf "${root}"' EXIT

# copy_libraries FILE: copy the libraries of a program or library.
copy_libraries() {
    # "name => path (address)", or the loader's path alone.
    # ldd fails for scripts and static programs, which need no libraries.
    { ldd "$1" 2> /dev/null || true; } | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' |
        while read -r library; do
            # Those in the image are there already.
            [ -e "${library}" ] && [ "${library#"${root}"}" = "${library}" ] || continue
            mkdir -p "${root}$(dirname "${library}")"
            # Newer releases of cp fail if the file is there already.
            cp -Ln "${library}" "${root}${library}" || true
        done
}

mkdir -p "${root}"/{dev,etc,proc,sys,tmp,usr/bin,usr/lib,run,var/tmp}
# Nearly all images have this link. Debian 13's PATH does not contain /bin.
ln -s usr/bin "${root}/bin"
chmod 0755 "${root}"
chmod 1777 "${root}/tmp" "${root}/var/tmp"
for program in sh bash cat ls readlink sleep id hostname env mkdir touch; do
    path="$(command -v "${program}")"
    cp -L "${path}" "${root}/usr/bin/${program}"
    copy_libraries "${path}"
done
for more in "${@:2}"; do
    target="${root}${more#*:}"
    mkdir -p "$(dirname "${target}")"
    cp -RH --no-target-directory "${more%%:*}" "${target}"
    find "${target}" -type f \( -perm -u+x -o -name '*.so*' \) | while read -r file; do
        copy_libraries "${file}"
    done
done
printf 'ID=hpcai-image\nNAME="Image of the tests"\nPRETTY_NAME="Image of the tests"\n' > "${root}/etc/os-release"
printf 'root:x:0:0:root:/root:/bin/sh\n' > "${root}/etc/passwd"
rm -f "${image}"
mksquashfs "${root}" "${image}" -all-root -no-progress -quiet > /dev/null
chmod 0644 "${image}"
