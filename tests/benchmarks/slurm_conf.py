# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render Slurm's files for clusters of several sizes: with the filter alone, and in Ansible with the role's variables.

The nodes are in two scale sets of two VM sizes, with 32 spare nodes each. The filter's time is CPU time. The time of
the smallest cluster is about Ansible's start; additional time of the others is due to their nodes.
molecule/cluster/tests/test_large.py measures the start of slurmctld with such files, which it gets with `--write`.

Run it with `tests/benchmarks/run.sh slurm_conf`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.cluster import spare_names
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.files import FileOptions, files_of

REPOSITORY = Path(__file__).resolve().parents[2]
SIZES = (4, 600, 2000, 10000)
SETS = {"a100": "Standard_ND96asr_v4", "h100": "Standard_ND96isr_H100_v5"}


def hosts(count: int) -> dict[str, dict[str, Any]]:
    """Compute nodes as the inventory plugin describes them."""
    return {
        f"{name}{number:06}": {
            "inventory_hostname": f"{name}{number:06}",
            "azure_vmss": name,
            "azure_instance_id": str(number),
            "azure_computer_name": f"{name}{number:06}",
            "azure_vm_size": size,
            "azure_private_ipv4": f"10.{network}.{(number + 4) // 256}.{(number + 4) % 256}",
        }
        for network, (name, size) in enumerate(SETS.items())
        for number in range(count // len(SETS))
    }


def by_filter(count: int) -> dict[str, str]:
    """The files without Ansible."""
    machines = list(hosts(count).values())
    return files_of(machines, FileOptions(release="22.05", spares=spare_names(machines, 32, {})))


def by_ansible(count: int, folder: Path, variables: dict[str, Any]) -> None:
    """Let Ansible write the files that the role would write on the controller."""
    folder.mkdir(parents=True, exist_ok=True)
    compute = {
        name: {key: value for key, value in facts.items() if key != "inventory_hostname"}
        for name, facts in hosts(count).items()
    }
    inventory = {
        "all": {
            "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
            "children": {
                "hpcai_controller": {"hosts": {"ctl": {"azure_private_ipv4": "127.0.0.1", "slurm_release": "22.05"}}},
                "hpcai_compute": {"hosts": compute},
            },
        }
    }
    write = {
        "name": "Write a file",
        "ansible.builtin.copy": {"content": "{{ item.text }}", "dest": f"{folder}/{{{{ item.name }}}}", "mode": "0644"},
        "loop": "{{ __slurm_files | selectattr('text') }}",
        "loop_control": {"label": "{{ item.name }}"},
        "tags": "render",
    }
    facts = {
        "name": "Stand in for facts",
        "ansible.builtin.set_fact": {"hostname": "ctl", "cacheable": True},
        "tags": "render",
    }
    playbook = [{"hosts": "ctl", "gather_facts": False, "roles": ["hpcai.azure.slurm"], "post_tasks": [facts, write]}]
    # JSON is YAML, and read faster.
    (folder / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
    (folder / "render.json").write_text(json.dumps(playbook), encoding="utf-8")
    settings = f"[defaults]\ncollections_path = {REPOSITORY / '.collections'}\n"
    (folder / "ansible.cfg").write_text(settings, encoding="utf-8")
    (folder / "variables.json").write_text(json.dumps(variables), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.json", "render.json"]
    done = subprocess.run(
        [*command, "--tags", "render", "--extra-vars", "@variables.json"],
        cwd=folder,
        env={**os.environ, "ANSIBLE_CONFIG": str(folder / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"ansible-playbook failed for {count} nodes:\n{done.stdout}{done.stderr}")


def seconds(action: Any, repeat: int, clock: Callable[[], float]) -> float:
    """The median time of an action."""
    taken = []
    for _round in range(repeat):
        before = clock()
        action()
        taken.append(clock() - before)
    return statistics.median(taken)


def main() -> int:
    """Measure and print the results, or write the files of one cluster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="rounds; the results are medians (default: 3)")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the files of one cluster there instead")
    parser.add_argument("--nodes", type=int, default=600, help="the number of its nodes (default: 600)")
    parser.add_argument("--variables", type=json.loads, default={}, help="variables of the role, in JSON")
    options = parser.parse_args()
    if options.write:
        by_ansible(options.nodes, options.write.resolve(), options.variables)
        return 0
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, median of {options.repeat} runs\n")
    print("| nodes | by the filter (CPU) | by ansible-playbook | lines | bytes |\n| ---: | ---: | ---: | ---: | ---: |")
    times = {}
    for count in SIZES:
        files = by_filter(count)
        alone = seconds(partial(by_filter, count), options.repeat, time.process_time)
        with tempfile.TemporaryDirectory() as folder:
            ansible = partial(by_ansible, count, Path(folder), {})
            whole = seconds(ansible, options.repeat, time.monotonic)
            written = [path.read_text(encoding="utf-8") for path in Path(folder).glob("*.conf")]
        times[count] = (alone, whole)
        lines = sum(len(text.splitlines()) for text in written)
        size = sum(len(text) for text in written)
        assert sum(map(len, files.values())) <= size
        print(f"| {count} | {alone * 1000:.1f} ms | {whole:.1f} s | {lines} | {size} |")
    growth = times[2000][0] / times[600][0]
    print(f"\n3.3 times the nodes take the filter {growth:.1f} times as long.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
