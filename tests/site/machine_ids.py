#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An MPI program: rank 0 prints one line of JSON with the place of each rank and the sum over all ranks."""

from __future__ import annotations

import json
import os
from pathlib import Path

from mpi4py import MPI

world = MPI.COMM_WORLD
mine = {
    "rank": world.rank,
    "node": os.environ["SLURMD_NODENAME"],
    "computer_name": MPI.Get_processor_name(),
    "machine_id": Path("/etc/machine-id").read_text(encoding="ascii").strip(),
}
everyone = world.gather(mine, root=0)
total = world.allreduce(world.rank + 1)
if world.rank == 0:
    print(json.dumps({"ranks": everyone, "sum": total}))
