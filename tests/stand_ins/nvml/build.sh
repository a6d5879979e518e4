#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds the stand-ins for NVML and nvidia-smi into a folder:  build.sh FOLDER [-DWITHOUT_APPLICATION_CLOCKS]
# With that definition it plays a library of CUDA 14 or later, which has no functions for application clocks, and builds
# no nvidia-smi.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=$1
shift

# A fresh machine has no compiler: host.sh installs the distribution's packages that the tests need.
command -v cc > /dev/null || "$here/../../setup/host.sh"

mkdir -p "$folder"
# Build under another name and then rename, so that processes that use the old library keep it.
cc -std=gnu11 -O1 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror "$@" \
  -Wl,-soname,libnvidia-ml.so.1 -Wl,-z,defs -o "$folder/libnvidia-ml.so.1.$$" "$here"/*.c
mv "$folder/libnvidia-ml.so.1.$$" "$folder/libnvidia-ml.so.1"

[ $# -eq 0 ] || exit 0
cc -std=gnu11 -O1 -Wall -Wextra -Werror -o "$folder/nvidia-smi" "$here/../nvidia_smi/nvidia-smi.c" \
  "$folder/libnvidia-ml.so.1" -Wl,-rpath,"$folder"
