# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A controller for replace.yml: this machine, with commands that replace slurmctld and the arbiter.

The nodes do not answer ssh, unless a test simulates one that does. tests/cluster tests changes of Slurm's configuration
after a deletion, because here they would change this machine.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
from pathlib import Path
from typing import Any

import yaml

from .reading import Finished, Source, ansible, facts

NODES = ("compute-0", "compute-3", "compute-17")
SCONTROL = r"""#!/bin/sh
cd "$(dirname "$0")"
case "$*" in
    *"show nodes"*) cat nodes ;;
    update*)
        echo "$*" >> updates
        new="State=IDLE"
        [ "$3" = State=DRAIN ] && new="State=IDLE+DRAIN $4 [root@2026-11-22T16:40:00]"
        sed -i "s|^$2 .*|$2 $new|" nodes
        ;;
    *) exit 1 ;;
esac
"""
FAILING_SQUEUE = """#!/bin/sh
cd "$(dirname "$0")"
echo >> calls
case $(wc -l < calls) in
    1) echo "4711|alice|RUNNING|compute-3" ;;
    2) echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1 ;;
esac
"""
SQUEUE = """#!/bin/sh
cat "$(dirname "$0")/jobs"
"""
HPCNODE = """#!/bin/sh
cd "$(dirname "$0")"
case "$1 $2" in
    "elastic status") cat elastic; exit 0 ;;
    "elastic retire") echo "$*" >> retired; exit 0 ;;
    "elastic settle") echo "$*" >> retired; cat settled; exit "$(cat settled_rc)" ;;
    "elastic canary") echo "$*" >> retired; cat canary; exit "$(cat canary_rc)" ;;
esac
cat marked
exit 1
"""


class Controller:
    """A folder of commands that replace slurmctld and the arbiter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name, text in (("scontrol", SCONTROL), ("squeue", SQUEUE), ("hpcnode", HPCNODE)):
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(stat.S_IRWXU)
        (folder / "ssh").write_text("#!/bin/sh\nexit 255\n", encoding="utf-8")
        (folder / "ssh").chmod(stat.S_IRWXU)
        self.set_nodes()
        (folder / "jobs").write_text("", encoding="utf-8")
        self.mark()

    def set_nodes(self, state: str = "IDLE", reason: str = "") -> None:
        """Set the state of all nodes."""
        more = f" Reason={reason} [root@2026-11-22T16:40:00]" if reason else ""
        lines = "".join(f"NodeName={name} State={state}{more}\n" for name in NODES)
        (self.folder / "nodes").write_text(lines, encoding="utf-8")

    def mark(self, *vm_ids: str) -> None:
        """Let the arbiter report these machines as marked for replacement."""
        marked = [
            {"node": "x", "vm_id": vm_id, "host": "GGBB1", "reason": "hpcai: health: replace"} for vm_id in vm_ids
        ]
        self.set_status({"schema": 1, "command": "arbiter", "status": 1, "replace": marked, "runs": True})

    def set_status(self, document: dict[str, Any] | None) -> None:
        """Set the arbiter's status; None removes hpcnode."""
        if document is None:
            (self.folder / "hpcnode").unlink()
        (self.folder / "marked").write_text(json.dumps(document), encoding="utf-8")

    @property
    def updates(self) -> list[str]:
        """The update commands that slurmctld received."""
        file = self.folder / "updates"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def health(source: Source, host: str = "GGBB1", failed: str = "") -> dict[str, Any]:
    """The result of the health checks of compute-3 on this physical host."""
    check: dict[str, Any] = {
        "name": "gpu_count",
        "verdict": "fail" if failed else "pass",
        "summary": failed or "8 of 8 GPUs",
        "action": "replace",
        "fault": "NHC2009",
        "findings": [],
        "readings": [],
    }
    vm_id = facts(source.read(include_vms="tagged"), "compute000003")["azure_vm_id"]
    return {
        "schema": 1,
        "command": "health",
        "tier": "periodic",
        "time": "2026-11-22T16:40:00Z",
        "verdict": check["verdict"],
        "node": {"name": "compute-3", "vm_id": vm_id, "host": host},
        "checks": [check],
    }


def replace(
    source: Source, controller: Controller, *flags: str, answer: dict[str, Any] | None = None, **variables: Any
) -> Finished:
    """Run the playbook.

    :param answer: result of the health checks of compute-3 after its move; with None, it does not answer ssh.
    """
    if variables.get("hpcai_replace_how") == "delete":
        # With jobs, no instance is deleted; otherwise, the playbook would write Slurm's configuration on this machine.
        (controller.folder / "jobs").write_text(f"4711|alice|RUNNING|{','.join(NODES)}\n", encoding="utf-8")
        variables["hpcai_replace_timeout"] = 0
        # The configuration is rendered even if it is not written.
        variables["hpcai_vm_sizes"] = {"Standard_HB120rs_v3": {"vcpus": 120, "memory_mib": 458752}}
    source.write(include_vms="tagged", resource_groups=["hpcai-sim"])
    folder = source.path.parent
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": "python3"}
    hosts: dict[str, Any] = {"ctl": here}
    if answer is not None:
        # One answer for all modules: ping, wait_for and the health checks.
        text = json.dumps({"changed": False, "ping": "pong", "health": answer})
        (controller.folder / "moved").write_text(f"#!/bin/sh\nprintf '%s' {shlex.quote(text)}\n", encoding="utf-8")
        (controller.folder / "moved").chmod(stat.S_IRWXU)
        python = str(controller.folder / "moved")
        hosts["compute000003"] = {"ansible_connection": "local", "ansible_python_interpreter": python}
        hosts["compute000003"]["ansible_become"] = False
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}), encoding="utf-8")
    return ansible(
        "ansible-playbook",
        "-i",
        source.path,
        "-i",
        "hosts.yml",
        "-e",
        json.dumps({"hpcai_replace_boot": 1, **variables}),
        *flags,
        "hpcai.azure.replace",
        cwd=folder,
        env={
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_SSH_EXECUTABLE": str(controller.folder / "ssh"),
            "PATH": f"{controller.folder}:{os.environ['PATH']}",
        },
    )


def output_of(done: Finished) -> str:
    """The output of a run, on one line."""
    return " ".join((done.stdout + done.stderr).split())


def write_requests(source: Source) -> list[tuple[str, str]]:
    """Method and action of all requests to Azure that were not only reads."""
    return [
        (item["method"], item["path"].rsplit("/", 1)[1].lower())
        for item in source.simulator.requests()
        if item["method"] != "GET"
    ]


def task_output(done: Finished, name: str) -> str:
    """The output of a task."""
    after = done.stdout.rpartition(f"TASK [{name}]")[2]
    return after.partition("\nTASK [")[0].partition("\nPLAY ")[0]
