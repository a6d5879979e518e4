# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the daemon of elastic sets: its requests, the CPU time of a pass, and what slurmctld waits for.

Requests are counted at a simulated Resource Manager, over HTTP. A pass is the parsing of slurmctld's answer about nodes
that are all leased and in use, and the decision. A program of slurmctld leaves a request in a spool; it is compared
with a Python that does nothing.

Run it with `tests/benchmarks/run.sh elastic`. With `--cluster`, it also runs the tests of tests/cluster/test_elastic.py
that measure on nodes, and prints their figures.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import spool
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.book import JOINED, Book, Lease
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.decide import step
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.settings import ElasticSet, Settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.slurmctld import Slurmctld
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic.views import Instance, SetView
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from contract.elastic_world import START, World
from simulator.testing import running

from .machine import describe
from .measure import Sample, measure

ID = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg/providers/Microsoft.Compute"
    "/virtualMachineScaleSets/gpu"
)
SIZES = (60, 600, 2000)
# As Slurm 24.11 prints a node.
NODE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=48 CPUAlloc=96 CPUEfctv=96 CPUTot=96 CPULoad=0.42 "
    "AvailableFeatures=nd96asr_v4,regular ActiveFeatures=nd96asr_v4,regular Gres=gpu:a100:8(S:0-1) "
    "NodeAddr={address} NodeHostName=gpu{number:06d} Version=24.11.5 OS=Linux 6.1.0 #1 SMP RealMemory=900000 "
    "AllocMem=0 FreeMem=880000 Sockets=2 Boards=1 State=ALLOCATED+CLOUD ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "
    "MCS_label=N/A Partitions=gpu,all BootTime=2026-11-26T09:00:00 SlurmdStartTime=2026-11-26T09:01:00 "
    "LastBusyTime=2026-11-26T10:00:00 ResumeAfterTime=None CfgTRES=cpu=96,mem=900000M,billing=96 AllocTRES=cpu=96 "
    "CurrentWatts=0 AveWatts=0 Comment=hpcai-lease/1/{vm_id}"
)


def scenario(*names: str) -> dict[str, object]:
    """A subscription with a controller and empty scale sets."""
    return {
        "virtual_networks": [{"address_prefixes": ["10.80.0.0/20"]}],
        "virtual_machines": [{"name": "controller"}],
        "scale_sets": [{"name": name, "capacity": 0, "single_placement_group": False} for name in names],
    }


def idle_hour(nodes: int, others: Sequence[str] = ()) -> int:
    """The requests of an hour in which nothing changes."""
    with running(scenario("gpu", *others)) as simulator, tempfile.TemporaryDirectory() as folder:
        world = World(simulator, simulator.endpoint, Path(folder), size=max(6, nodes), others=tuple(others), idle_s=1e6)
        if nodes:
            job = world.slurm.submit(nodes, 60)
            world.advance(300, lambda: job.state == "DONE")
        world.advance(600)
        simulator.clear()
        world.advance(3600)
        return len(simulator.requests())


def growth(nodes: int) -> tuple[int, int]:
    """The changes of the capacity, and all requests, until a job runs on new nodes."""
    with running(scenario("gpu")) as simulator, tempfile.TemporaryDirectory() as folder:
        simulator.clear()
        world = World(simulator, simulator.endpoint, Path(folder), size=nodes)
        job = world.slurm.submit(nodes, 3600)
        if not world.advance(300, world.runs(job)):
            raise SystemExit(f"the job does not run: {world.lines[-5:]}")
        return len(world.changes("PATCH")), len(simulator.requests())


def pass_cpu(nodes: int, rounds: int) -> float:
    """The median CPU seconds of a pass over nodes with as many jobs."""
    names = [f"gpu-{number}" for number in range(nodes)]
    vm_ids = [f"{number:08d}-2222-4333-8444-555555555555" for number in range(nodes)]
    addresses = [f"10.0.{number // 250}.{number % 250 + 4}" for number in range(nodes)]
    shown = "\n".join(
        NODE.format(name=name, number=number, address=addresses[number], vm_id=vm_ids[number])
        for number, name in enumerate(names)
    )
    jobs = "".join(f"{1000 + number}|ann|RUNNING|gpu|{name}\n" for number, name in enumerate(names))
    options = ElasticSet(ID, nodes)
    settings = Settings({"gpu": options})
    book, machines = Book(), []
    for number, name in enumerate(names):
        host = f"gpu{number:06d}"
        book.leases[name] = Lease(name, vm_ids[number], str(number), addresses[number], host, JOINED, START, START)
        machines.append(
            Instance(str(number), vm_ids[number], power="running", address=addresses[number], host_name=host)
        )
    view = SetView('"1"', nodes, tuple(machines))

    def run(command: Sequence[str]) -> Result:
        return Result(tuple(command), 0, jobs if command[0] == "squeue" else shown, "")

    taken = []
    for _round in range(rounds):
        began = time.process_time()
        slurm = Slurmctld(run, "Comment").view()
        decision = step(slurm, {"gpu": view}, book, START, settings)
        taken.append(time.process_time() - began)
        if decision.actions or len(slurm.nodes) != nodes or len(slurm.jobs) != nodes:
            raise SystemExit(f"the pass is not what is to be measured: {decision.actions[:3]}")
    return statistics.median(taken)


def program(rounds: int) -> list[Sample]:
    """The medians of a program of slurmctld, and of a Python that does nothing, run alternately."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # As installed on a node: with its byte code.
        shutil.copytree(Path(spool.__file__).parents[1], folder / "hpcai_node")
        compileall.compile_dir(folder / "hpcai_node", quiet=2)
        (folder / "spool").mkdir()
        script = (
            f"import sys; sys.path.insert(0, {name!r})\n"
            f"from hpcai_node.elastic import spool; spool.SPOOL = {f'{name}/spool'!r}\n"
            "from hpcai_node.cli.main import main\n"
            "sys.exit(main(['elastic', 'program', 'suspend', 'gpu-[0-599]']))\n"
        )
        (folder / "program.py").write_text(script, encoding="utf-8")
        commands = ([sys.executable, "-I", str(folder / "program.py")], [sys.executable, "-I", "-c", ""])
        samples: list[list[Sample]] = [[], []]
        for _round in range(rounds):
            for taken, command in zip(samples, commands, strict=True):
                taken.append(measure(command, os.environ, folder))
        if len(list((folder / "spool").iterdir())) != rounds:
            raise SystemExit("the program has left no request")
    return [
        Sample(*(statistics.median(getattr(one, key) for one in taken) for key in ("wall", "cpu", "peak_mib")))
        for taken in samples
    ]


def on_nodes() -> list[str]:
    """What the tests of an elastic set on simulated nodes have measured: from job to node, fallback, and programs."""
    chosen = "within_10_s or fallback or programs"
    command = [sys.executable, "-m", "pytest", "-rP", "-k", chosen, "tests/cluster/test_elastic.py"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
    if done.returncode:
        raise SystemExit(done.stdout[-4000:])
    return [line for line in done.stdout.splitlines() if line.startswith(("seconds after", "refused by", "a program"))]


def main() -> int:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7, help="rounds; times are medians (default: 7)")
    parser.add_argument("--cluster", action="store_true", help="also measure on nodes (about ten minutes)")
    options = parser.parse_args()
    there = describe(None)
    print(
        f"Python {there['python']}, {there['cpus']} CPUs, load {there['load_average']}, medians of {options.repeat}\n"
    )
    for words, nodes, others in (
        ("one empty set", 0, ()),
        ("three empty sets", 0, ("a", "b")),
        ("600 idle nodes", 600, ()),
    ):
        print(f"an hour without changes, {words}: {idle_hour(nodes, others)} requests", flush=True)
    changes, requests = growth(600)
    print(f"growth by 600 nodes: {changes} change of the capacity, {requests} requests", flush=True)
    first = 0.0
    for nodes in SIZES:
        cpu = pass_cpu(nodes, options.repeat)
        times = f", {cpu / first:.1f} times that of {SIZES[0]}" if first else ""
        first = first or cpu
        print(f"a pass over {nodes} nodes with as many jobs: {cpu:.3f} s of CPU{times}", flush=True)
    ours, floor = program(options.repeat)
    print(
        f"a program of slurmctld: {ours.cpu:.3f} s of CPU, {ours.wall:.3f} s; Python alone: {floor.cpu:.3f} and "
        f"{floor.wall:.3f} s; {ours.cpu / floor.cpu:.1f} and {ours.wall / floor.wall:.1f} times"
    )
    for line in on_nodes() if options.cluster else ():
        print(f"on nodes: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
