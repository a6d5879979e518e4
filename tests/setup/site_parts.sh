#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Prints which parts of `make site` are real and which are simulated, for its summary.
# site_parts.sh [FOLDER]      FOLDER has the files of enroot and pyxis with which the site was created.
set -euo pipefail

real="" simulated=""
if [ -n "${1-}" ]; then
  real=", enroot and pyxis of $1"
  if "$(dirname "$0")/has_stand_ins.sh" "$1"; then
    real="" simulated=" enroot and pyxis are the stand-ins of $1."
  fi
fi
cat << END
   Real:       the playbooks provision and site, the inventory plugin and the Azure SDK, ssh, systemd, munge, Slurm,
               Open MPI, Prometheus$real.
   Simulated:  Azure Resource Manager and instance metadata; the nodes are containers on this machine, without GPUs,
               InfiniBand or NVMe disks, and with this machine's CPUs instead of a Standard_ND96asr_v4's.$simulated
END
