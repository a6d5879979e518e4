# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run health_check.yml on clusters of several sizes, to measure the work of the machine that runs Ansible.

Each node's Python is a program that prints the recorded result of the deep tier (forty checks). So no check runs and
ssh is not used: only Ansible's own work for each node and the report remain. The output has the seconds of each task,
and the size of the largest process. Some nodes are faulty and one does not answer, so the run is expected to fail.

Run it with `tests/benchmarks/run.sh health_play`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stand_ins.health_results import cluster

REPOSITORY = Path(__file__).resolve().parents[2]
SIZES = (60, 600)
FORKS = 32
KIB_OF_MIB = 1024
_TASK = re.compile(r"^(TASK|PLAY|PLAY RECAP) (?:\[(.*?)\] )?\*")


def prepare(count: int, folder: Path) -> None:
    """Write the inventory, the nodes' answers and the programs that print them."""
    hosts: dict[str, Any] = {}
    for one in cluster(count):
        variables = {**one["inventory"], "ansible_connection": "local"}
        if "health" in one["result"]:
            answer = folder / f"answer-of-{one['host']}"
            answer.write_text(json.dumps(one["result"]), encoding="utf-8")
            python = folder / f"python-of-{one['host']}"
            python.write_text(f"#!/bin/sh\nexec cat {answer}\n", encoding="utf-8")
            python.chmod(0o700)
            variables["ansible_python_interpreter"] = str(python)
        else:
            variables.update(ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1)
        hosts[one["host"]] = variables
    children = {
        "hpcai_controller": {"hosts": {"ctl": {"ansible_connection": "local"}}},
        "hpcai_compute": {"hosts": hosts},
    }
    inventory = {"all": {"children": children, "vars": {"ansible_become": False}}}
    # JSON is YAML, and read faster.
    (folder / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
    shutil.copy(REPOSITORY / "ansible.cfg", folder)


def play(folder: Path, forks: int) -> tuple[list[tuple[str, float]], float]:
    """Run the playbook. Returns the seconds of each task in order, and the size of the largest process in MiB."""
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        *("-i", "hosts.json", "hpcai.azure.health_check", "--forks", str(forks)),
        *("-e", json.dumps({"hpcai_health_tier": "deep"})),
    ]
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".collections"),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_HOME": str(folder / ".ansible"),
        "ANSIBLE_NOCOLOR": "1",
        # Otherwise Ansible prints a task's name only with its first result.
        "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "true",
        "PYTHONUNBUFFERED": "1",
    }
    began = time.monotonic()
    taken: list[tuple[str, float]] = []
    with (folder / "err").open("wb") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert process.stdout
        name, since = "start", began
        for line in process.stdout:
            found = _TASK.match(line)
            if found:
                now = time.monotonic()
                taken.append((name, now - since))
                name, since = (found[2] or found[1]), now
        _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    taken += [(name, time.monotonic() - since), ("all", time.monotonic() - began)]
    if process.returncode != 2 or not (folder / "health-report/report.html").exists():
        raise SystemExit(f"the playbook ended with {process.returncode}: {(folder / 'err').read_text('utf-8')}")
    return taken, usage.ru_maxrss / KIB_OF_MIB


def main() -> int:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of nodes (default: 60 600)")
    parser.add_argument("--forks", type=int, default=FORKS, help=f"Ansible's forks (default: {FORKS})")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {options.forks} forks, one run each\n")
    columns: dict[int, dict[str, float]] = {}
    for count in options.sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            prepare(count, folder)
            load = os.getloadavg()[0]
            taken, mib = play(folder, options.forks)
            sizes = [(folder / "health-report" / file).stat().st_size / 1e6 for file in ("report.html", "report.json")]
        columns[count] = {}
        for task, seconds in taken:
            columns[count][task] = columns[count].get(task, 0) + seconds
        written = ", ".join(f"{size:.1f} MB" for size in sizes)
        print(
            f"* {count:,} nodes: load {load:.1f} before; largest process {mib:.0f} MiB; page and JSON {written}",
            flush=True,
        )
    print(f"\n| seconds | {' | '.join(f'{count:,} nodes' for count in columns)} |\n|:--|{'--:|' * len(columns)}")
    for task in next(iter(columns.values())):
        print(f"| {task} | {' | '.join(f'{column.get(task, 0):.1f}' for column in columns.values())} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
