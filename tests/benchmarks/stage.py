# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare N shards with one azcopy in the same run, with an account whose answers are delayed.

All nodes are processes on this machine, so the benchmark compares waiting and not bandwidth: each answer is delayed, as
on the way to a real account, and each node has a cap. Without the delay, one azcopy alone uses all CPUs of the machine.

Run it with `tests/benchmarks/run.sh stage [FILES] [KIB]`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stand_ins.blob.azurite import Azurite, azcopy_in, installed
from stand_ins.blob.front import Front
from stand_ins.blob.sas import account_sas

_HPCNODE = "from _node.cli.main import main; raise SystemExit(main())"
_CORE = Path(__file__).resolve().parents[2] / "plugins/module_utils"
_HELD_S = 0.05
_CAP_MBPS = 40
_SHARDS = (1, 2, 4)


def held(_method: str, _path: str) -> bool:
    """Delay each answer, and refuse none."""
    time.sleep(_HELD_S)
    return False


def alone(program: str, source: str, target: Path, environment: dict[str, str]) -> float:
    """Run one azcopy alone, as a job script would."""
    command = [program, "copy", f"{source}?{account_sas()}", str(target), "--from-to", "BlobLocal", "--recursive"]
    began = time.perf_counter()
    subprocess.run(
        [*command, "--cap-mbps", str(_CAP_MBPS), "--block-size-mb", "4"],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


def sharded(count: int, program: str, source: str, target: Path, sas: Path, environment: dict[str, str]) -> float:
    """Run hpcnode stage on ``count`` nodes."""
    target.mkdir()
    words = ["stage", "run", "--json", "--source", source, "--target", str(target), "--sas-file", str(sas)]
    words += ["--azcopy", program, "--work", str(target.parent), "--cap-mbps", str(_CAP_MBPS)]
    step = {**environment, "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_JOB_NUM_NODES": str(count)}
    began = time.perf_counter()
    nodes = [
        subprocess.Popen(
            [sys.executable, "-c", _HPCNODE, *words],
            env={**step, "SLURM_NODEID": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(count)
    ]
    answers = [json.loads(node.communicate()[0]) for node in nodes]
    took = time.perf_counter() - began
    if any(answer["status"] for answer in answers):
        raise RuntimeError(answers)
    return took


def main() -> None:
    """Print wall times."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    size = (int(sys.argv[2]) if len(sys.argv) > 2 else 512) << 10
    programs = installed()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        account = Azurite(programs, here / "azurite")
        front = Front(account.port, held)
        account.container("bench")
        for number in range(files):
            account.put("bench", f"{number:05d}.bin", os.urandom(size))
        sas = here / "sas"
        sas.write_text(account_sas(), encoding="ascii")
        sas.chmod(0o600)
        environment = {**os.environ, "HOME": folder, "PYTHONPATH": str(_CORE), "AZCOPY_CONCURRENCY_VALUE": "8"}
        program, source = azcopy_in(programs), f"{front.url}/bench"
        print(f"{files} files of {size >> 10} KiB, {_CAP_MBPS} Mbps a node, answers held {_HELD_S * 1000:.0f} ms")
        try:
            single = alone(program, source, here / "alone", environment)
            print(f"one azcopy: {single:.1f} s")
            for count in _SHARDS:
                took = sharded(count, program, source, here / f"shards{count}", sas, environment)
                print(f"{count} shards: {took:.1f} s, {single / took:.2f} times as fast")
        finally:
            front.end()
            account.end()


if __name__ == "__main__":
    main()
