#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds the stand-in for NVIDIA's CUDA driver and cuBLAS, one library for both, into a folder:  build.sh FOLDER
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=$1

# A fresh machine has no compiler: host.sh installs the distribution's packages that the tests need.
command -v cc > /dev/null || "$here/../../setup/host.sh"

mkdir -p "$folder"
cc -std=gnu11 -O1 -fPIC -shared -Wall -Wextra -Werror -Wl,-z,defs -o "$folder/libcuda.so.1.$$" "$here"/cuda.c
mv "$folder/libcuda.so.1.$$" "$folder/libcuda.so.1"
