# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare gpu_clocks with the plain nvidia-smi commands that it replaces, on eight GPUs.

Run `PYTHONPATH=tests python -m benchmarks.gpu_clocks` in a clone's root. Driver and GPUs are the stand-ins for NVML and
nvidia-smi, which answer at once. Two results also apply to a real machine: how many processes open the driver, and the
cost of our own code. A real nvidia-smi takes longer than the stand-in.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stand_ins.gpu_machine import PLAYED, GpuMachine, build

from benchmarks.machine import commit
from benchmarks.measure import Sample, measure

GPUS = 8
QUERY = "clocks.max.memory,clocks.applications.memory,clocks.max.graphics,clocks.applications.graphics"
# The commands of administrators: count the GPUs, compare the clocks of each, and set those that are lower.
PLAIN = f"""
count=$(nvidia-smi -i 0 --query-gpu=count --format=csv,noheader,nounits)
i=0
while [ $i -lt $count ]; do
  nvidia-smi -i $i --query-gpu={QUERY} --format=csv,noheader,nounits | {{
    IFS=', ' read -r most_memory memory most_graphics graphics
    if [ $most_memory -gt $memory ] || [ $most_graphics -gt $graphics ]; then
      nvidia-smi -i $i -ac $most_memory,$most_graphics
    fi
  }}
  i=$((i + 1))
done
"""


@dataclass(frozen=True)
class Contender:
    """A way to set the clocks."""

    name: str
    command: Callable[[GpuMachine], Sequence[str]]


def module(machine: GpuMachine) -> list[str]:
    """The command that runs the module as on a node."""
    return [sys.executable, str(PLAYED), str(machine.root), "module", json.dumps({"state": "max"})]


CONTENDERS = (
    Contender("plain nvidia-smi commands", lambda _machine: ["/bin/sh", "-euc", PLAIN]),
    Contender("gpu_clocks through NVML", module),
    # The cost of any module before it does anything.
    Contender(
        "a module that does nothing",
        lambda _machine: [sys.executable, "-c", "import ansible.module_utils.basic, ansible.module_utils.testing"],
    ),
)


@dataclass(frozen=True)
class Result:
    """The results of a contender for one case: to set eight GPUs, or to find them already set."""

    name: str
    case: str
    opened: int
    """Processes that opened the driver."""
    cpu: float
    wall: float


def compare(library: Path, folder: Path, runs: int) -> list[Result]:
    """Run each contender on unset and on set clocks. They take turns, so that a busy machine slows all of them."""
    samples: dict[tuple[str, str], list[tuple[Sample, int]]] = {}
    for run in range(runs):
        for contender in CONTENDERS:
            place = folder / f"{run} {contender.name}"
            machine = GpuMachine(place, library)
            machine.path = f"{library}:{machine.path}"
            machine.play(**{f"gpu__{index}__persistence": 1 for index in range(GPUS)})
            for case in ("sets", "finds set"):
                sample = measure(contender.command(machine), machine.environment, place)
                taken = (sample, opened(machine))
                samples.setdefault((contender.name, case), []).append(taken)
            if contender.command is not CONTENDERS[-1].command:
                assert machine.state[f"gpu.{GPUS - 1}.set.application_graphics"] == 1410, contender.name
    return [
        Result(
            name,
            case,
            statistics.median_low([count for _sample, count in taken]),
            statistics.median(sample.cpu for sample, _count in taken),
            statistics.median(sample.wall for sample, _count in taken),
        )
        for (name, case), taken in samples.items()
    ]


def opened(machine: GpuMachine) -> int:
    """How many processes opened the driver since the last call."""
    file = machine.gpus / "calls"
    lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return len({line.split()[0] for line in lines if "nvmlInit" in line})


def table(results: Sequence[Result]) -> str:
    """A Markdown table."""
    rows = [f"| {GPUS} GPUs | | processes that open the driver | CPU s | wall s |", "|:--|:--|--:|--:|--:|"]
    rows += [f"| {one.name} | {one.case} | {one.opened} | {one.cpu:.2f} | {one.wall:.2f} |" for one in results]
    return "\n".join(rows)


def ratios(results: Sequence[Result]) -> list[str]:
    """How the module compares with the plain commands, in this run."""
    by_key = {(one.name, one.case): one for one in results}
    lines = []
    for case in ("sets", "finds set"):
        plain = by_key[CONTENDERS[0].name, case]
        idle = by_key[CONTENDERS[2].name, case]
        ours = by_key[CONTENDERS[1].name, case]
        opens = f"{ours.opened} processes of the module open the driver, {plain.opened} of the plain commands"
        share = f"{idle.cpu / ours.cpu:.0%} of it is the cost of any module"
        lines.append(f"* {case}: {opens}; CPU {ours.cpu / plain.cpu:.1f} times theirs, {share}")
    return lines


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs per contender; the results are medians (default: 5)")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        results = compare(build(Path(folder, "library")), Path(folder), runs)
    print(f"{commit()}, {runs} runs\n\n{table(results)}\n")
    print("\n".join(ratios(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
