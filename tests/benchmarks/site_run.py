# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of a run of site.yml that changes nothing, by the number of nodes.

For each size, a simulated cluster of real systemd nodes is started and converged. Then there are rounds with two
contenders: site.yml, and as a lower bound a playbook that pings each host as often as site.yml runs a module there,
with the same inventory. Everything is on one machine, including the nodes, so only the ratios, the growth and the bytes
are meaningful, not the seconds. The bytes are those that this machine exchanged with the nodes: ssh, and their requests
to the simulator.

Run it with `tests/benchmarks/run.sh site_run` on an idle machine, with root or sudo.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks import machine
from benchmarks.measure import Sample, measure
from simulated.cluster import REPOSITORY, Cluster, program
from simulated.own_cluster import simulator

NAME, PORT, NETWORK = "bench", 8590, "10.88.0.0/24"
CONTROLLER = "10.88.0.4"
INTERFACES = Path("/sys/class/net")
SITE, FLOOR = "site.yml", "as many pings"
COMPUTE = "compute000000"
ALL = "hpcai_controller:hpcai_login:hpcai_compute"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[3, 6, 12], help="machines, including the controller")
    parser.add_argument("--repeat", type=int, default=3, metavar="ROUNDS")
    options = parser.parse_args(arguments)
    about = machine.describe(None)
    print(f"commit {machine.commit()}, {about['cpus']} CPUs, {about['system']}, load {about['load_average']}")
    rows = [_measure(nodes, options.repeat) for nodes in options.nodes]
    print("\n".join(["", *_table(rows), "", *_growth(rows)]))
    return 0


def _measure(nodes: int, repeat: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-site-") as name:
        folder = Path(name)
        with _cluster(nodes, folder) as cluster:
            inventory = cluster.write_inventory(folder / "inventory")
            _say(f"{nodes} nodes: converging")
            began = time.monotonic()
            first = cluster.site(inventory)
            if first.rc:
                raise SystemExit(f"site.yml failed: {first.output[-3000:]}")
            converging = time.monotonic() - began
            environment = _environment(cluster, folder)
            _remove_code_cache(folder, inventory, environment)
            return {"nodes": nodes, "converging": converging, **_rounds(nodes, repeat, folder, inventory, environment)}


def _remove_code_cache(folder: Path, inventory: Path, environment: Mapping[str, str]) -> None:
    """Remove the nodes' cache of compiled modules, which users' machines do not have."""
    playbook = folder / "bare.yml"
    path = "/usr/lib/python3/dist-packages/hpcai_zip_cache.pth"
    task = {"name": "Keep nothing", "ansible.builtin.file": {"path": path, "state": "absent"}, "register": "kept"}
    judge = {"name": "It was there", "ansible.builtin.assert": {"that": "kept is changed"}}
    play = {"name": "Bare", "hosts": ALL, "gather_facts": False, "become": True, "tasks": [task, judge]}
    playbook.write_text(yaml.safe_dump([play]), encoding="utf-8")
    done = subprocess.run(_play(str(playbook), inventory), env=environment, cwd=folder, check=False, timeout=300)
    if done.returncode:
        raise SystemExit("cannot remove the nodes' cache of compiled modules, which users' machines do not have")


def _rounds(nodes: int, repeat: int, folder: Path, inventory: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    samples: dict[str, list[Sample]] = {SITE: [], FLOOR: []}
    costs = Path(environment["HPCAI_TASK_COSTS"])
    floor = folder / "floor.yml"
    counts: dict[str, Any] = {}
    sent: list[int] = []
    for number in range(1, repeat + 1):
        _say(f"{nodes} nodes, round {number} of {repeat}")
        costs.unlink(missing_ok=True)
        before = traffic_to(CONTROLLER)
        samples[SITE].append(measure(_play("playbooks/site.yml", inventory), environment, folder))
        sent.append(traffic_to(CONTROLLER) - before)
        counts = _count(costs)
        floor.write_text(_pings(counts["modules"]), encoding="utf-8")
        samples[FLOOR].append(measure(_play(str(floor), inventory), environment, folder))
    return {"samples": samples, "bytes": statistics.median(sent), **counts}


def traffic_to(address: str) -> int:
    """The bytes that this machine's interface to an address has received and sent so far."""
    route = subprocess.run(["ip", "-json", "route", "get", address], capture_output=True, text=True, check=True)
    counters = INTERFACES / json.loads(route.stdout)[0]["dev"] / "statistics"
    return sum(int((counters / name).read_text(encoding="ascii")) for name in ("rx_bytes", "tx_bytes"))


def _count(costs: Path) -> dict[str, Any]:
    """The tasks of the last run on the compute node. A run that changed something is an error."""
    lines = [json.loads(line) for line in costs.read_text(encoding="utf-8").splitlines()]
    changed = [f"{line['host']}: {line['task']}" for line in lines if line["changed"] or line["verdict"] == "failed"]
    if changed:
        raise SystemExit(f"the run must change nothing, but changed {'; '.join(changed)}")
    here = [line for line in lines if line["host"] == COMPUTE]
    if not here:
        raise SystemExit(f"no task ran on {COMPUTE}")
    roles = collections.Counter(line["role"] or "site.yml" for line in here)
    seconds: collections.Counter[str] = collections.Counter()
    for line in here:
        seconds[line["role"] or "site.yml"] += line["seconds"]
    return {
        "tasks": len(here),
        "modules": sum(line["verdict"] == "ok" for line in here),
        "roles": dict(roles),
        "seconds": dict(seconds),
    }


def _pings(number: int) -> str:
    """A playbook of pings like site.yml: no facts, as root, on the same hosts."""
    task = {"name": "Ping", "ansible.builtin.ping": {}}
    play = {
        "name": "Floor",
        "hosts": ALL,
        "gather_facts": False,
        "become": True,
        "tasks": [task] * number,
    }
    return yaml.safe_dump([play])


def _play(playbook: str, inventory: Path) -> list[str]:
    return [program("ansible-playbook"), playbook, "-i", str(inventory)]


def _environment(cluster: Cluster, folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HPCAI_SIMULATOR_STATE": str(cluster.state),
        "HPCAI_TASK_COSTS": str(folder / "costs.jsonl"),
        "ANSIBLE_CALLBACK_PLUGINS": str(REPOSITORY / "tests/callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "task_costs",
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
    }


@contextmanager
def _cluster(nodes: int, folder: Path) -> Iterator[Cluster]:
    """A controller and compute nodes."""
    scenario = yaml.safe_load((REPOSITORY / "tests/simulator/scenarios/site.yml").read_text(encoding="utf-8"))
    scenario["scale_sets"][0] |= {"capacity": nodes - 1, "instance_ids": list(range(nodes - 1))}
    file = folder / f"{NAME}.yml"
    file.write_text(yaml.safe_dump(scenario), encoding="utf-8")
    _say(f"{nodes} nodes: starting them")
    simulator("down", "--name", NAME)
    simulator("up", str(file), "--name", NAME, "--port", str(PORT), "--network", NETWORK)
    try:
        yield Cluster(f"http://127.0.0.1:{PORT}", REPOSITORY / ".simulator" / NAME)
    finally:
        simulator("down", "--name", NAME)


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| nodes | converging s | no change: wall s | a node | CPU s of Ansible | pings: wall s | ratio | tasks | MB |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        wall, floor = _median(row, SITE, "wall"), _median(row, FLOOR, "wall")
        lines.append(
            f"| {row['nodes']} | {row['converging']:.1f} | {wall:.1f} | {wall / row['nodes']:.2f} | "
            f"{_median(row, SITE, 'cpu'):.1f} | {floor:.1f} | {wall / floor:.2f} | {row['tasks']} | "
            f"{row['bytes'] / 1e6:.2f} |"
        )
    last = rows[-1]
    parts = [f"{role} {count} ({last['seconds'][role]:.1f} s)" for role, count in sorted(last["roles"].items())]
    return [*lines, "", f"Tasks of a compute node among {last['nodes']} nodes, and their time: {', '.join(parts)}."]


def _growth(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    def growth(row: Mapping[str, Any], contender: str) -> float:
        return _median(row, contender, "wall") / _median(rows[0], contender, "wall")

    return [
        f"From {rows[0]['nodes']} to {row['nodes']} nodes: {growth(row, SITE):.2f} times the time; "
        f"pings {growth(row, FLOOR):.2f} times."
        for row in rows[1:]
    ]


def _median(row: Mapping[str, Any], contender: str, of: str) -> float:
    return float(statistics.median(getattr(sample, of) for sample in row["samples"][contender]))


def _say(text: str) -> None:
    print(f"[bench] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
