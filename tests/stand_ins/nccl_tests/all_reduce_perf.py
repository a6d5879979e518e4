# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for nccl-tests' all_reduce_perf, not NVIDIA's: the ranks connect through MPI and print its output format.

A file on a node sets its behaviour: "slow", "wrong" or "dies". One such node affects the result of the run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mpi4py import MPI

STATE = Path("/etc/nccl-stand-in")
GOOD, SLOW = 232.82, 11.5

world = MPI.COMM_WORLD
state = STATE.read_text(encoding="ascii").strip() if STATE.exists() else ""
if state == "dies":
    sys.exit(f"{os.uname().nodename}: Test NCCL failure common.cu:1005 'unhandled system error'")
size = int(sys.argv[sys.argv.index("-b") + 1].removesuffix("G")) << 30
mine = (os.getpid(), os.uname().nodename, int(os.environ["SLURM_LOCALID"]), state)
everyone = world.gather(mine, root=0)
world.barrier()
if world.rank == 0:
    rate = SLOW if any(rank[3] == "slow" for rank in everyone) else GOOD
    wrong = 64 if any(rank[3] == "wrong" for rank in everyone) else 0
    print(f"# nThread 1 nGpus 1 minBytes {size} maxBytes {size} step: 1048576(bytes) warmup iters: 5 iters: 20")
    print("#\n# Using devices")
    for number, (pid, node, device, _state) in enumerate(everyone):
        print(f"#  Rank {number:2} Group  0 Pid {pid:6} on {node} device {device:2} [0x00] a stand-in")
    columns = "   time   algbw   busbw #wrong"
    print(f"#\n#       size         count      type   redop    root {columns} {columns}")
    times = f"{size / rate / 1000:7.0f} {rate * 4 / 7:7.2f} {rate:7.2f} {wrong:6}"
    print(f"  {size}    {size // 4}     float     sum      -1  {times} {times}")
    print(f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}\n# Avg bus bandwidth    : {rate}\n#")
    sys.exit(1 if wrong else 0)
