# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The emulated machine as an instance of a baked image: prepares it, starts slurmd on it, and reads its status."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardware import qemu
from hardware.baked_files import (
    COMPUTE,
    FOUND,
    GPU_STATE,
    GPUS,
    LIBRARY,
    MODULES,
    NCCL_BLOCK,
    NODE_NAME,
    REMOVE,
    SETTINGS,
    SLURMD,
    UNITS,
)
from hardware.controller import Task, play
from hardware.scratch import MOUNTPOINT, Scratch
from hardware.vm import Machine

STAND_INS = Path(__file__).resolve().parents[1] / "stand_ins"
BLOCKING = ("instance", "key", "gpu", "fabric", "scratch", "directories")
STEPS = (*BLOCKING, "clocks", "nccl", "containers")
GOOD = ("pass", "warn", "skip")


class Node:
    """The machine as an instance of a baked image, and the status of its boot phase."""

    def __init__(self, scratch: Scratch) -> None:
        """Use the machine with these disks."""
        self.scratch = scratch
        self.machine: Machine = scratch.machine

    # Preparing

    def bake(self, folder: Path) -> None:
        """Bring the machine into the state after playbooks/image.yml: no machine data, and blank disks.

        :param folder: where the stand-in library is built.
        """
        machine = self.machine
        self.scratch.clear()
        options = {**self.scratch.options(), "state": "configured"}
        for done in play(machine, Task("node_tools"), Task("nvme_raid", options)):
            assert not done.failed, done.msg
        for name, settings in SETTINGS.items():
            self.configure(name, settings)
        self.set_metadata()
        machine.write("/etc/munge/munge.key", "k" * 64, "0400")
        machine.write("/opt/stand-ins/imds", (STAND_INS / "imds/imds.py").read_text(encoding="utf-8"))
        machine.write("/opt/stand-ins/gpus", GPUS, "0755")
        machine.write("/opt/stand-ins/slurmd", SLURMD, "0755")
        subprocess.run([str(STAND_INS / "nvml/build.sh"), str(folder)], check=True)
        put(machine, folder / "libnvidia-ml.so.1", LIBRARY)
        self.set_gpus(2)
        for unit, text in UNITS.items():
            machine.write(f"/etc/systemd/system/{unit}", text)
        machine.run("python3 -", stdin=MODULES)
        machine.run(f"ldconfig; systemctl daemon-reload; systemctl --quiet enable {' '.join(UNITS)}")
        machine.run("rm -rf /var/lib/hpcai/*; sync")

    def remove(self) -> None:
        """Undo the bake."""
        self.machine.run(REMOVE)
        self.scratch.clear()
        play(self.machine, Task("node_tools", {"state": "absent"}))

    def configure(self, name: str, settings: Mapping[str, Any]) -> None:
        """Write a settings file."""
        self.machine.write(f"/etc/hpcai/{name}.json", json.dumps({"schema": 1, **settings}))

    def set_metadata(self, compute: Mapping[str, str] | None = None, **faults: float) -> None:
        """Set the answers of the metadata service, and faults of the stand-in."""
        answers = {"compute": {**COMPUTE, **(compute or {})}, **faults}
        self.machine.write("/etc/stand-in-imds.json", json.dumps(answers))

    def set_gpus(self, number: int, *lines: str) -> None:
        """Set the number of GPUs that the driver reports, and faults of the stand-in."""
        self.machine.write(f"{GPU_STATE}/config", "\n".join([f"gpus={number}", "model=a100-40", *lines, ""]))

    def add_cleanup(self, command: str) -> None:
        """Run this command after the test, even if the test fails."""
        self.scratch.add_cleanup(command)

    # Running

    def restart_slurmd(self, *steps: str) -> dict[str, Any]:
        """Remove the records of these steps, start slurmd, and return the output of 'hpcnode boot status'.

        slurmd need not start: most faults prevent that, and the status reports it.
        """
        units = " ".join(f"hpcai-{step}.service" for step in steps)
        records = " ".join(f"/run/hpcai/boot/{step}.json" for step in steps)
        self.machine.run(
            f"systemctl stop slurmd.service {units}; systemctl reset-failed; rm -rf {FOUND} {records}; "
            "timeout 400 systemctl start slurmd.service || true",
            450,
        )
        return self.status()

    def status(self) -> dict[str, Any]:
        """Return the output of 'hpcnode boot status', with the steps by name."""
        # It exits with 1 or 2 if a step blocks; invalid JSON fails here.
        report: dict[str, Any] = json.loads(self.machine.run("hpcnode boot status --json || true"))
        return {**report, "steps": {step["name"]: step for step in report["steps"]}}

    def record(self, step: str) -> dict[str, Any]:
        """Return the record of a step's last run."""
        record: dict[str, Any] = json.loads(self.machine.run(f"cat /run/hpcai/boot/{step}.json"))
        return record

    def found(self) -> dict[str, str]:
        """Return the files and states that slurmd found when it started, by name; empty if it did not start."""
        show = f"cd {FOUND}; for name in *; do printf '%s ' $name; base64 -w0 $name; echo; done"
        output = self.machine.run(f"if test -d {FOUND}; then {show}; fi")
        pairs = (line.split(" ") for line in output.splitlines() if " " in line)
        return {name: base64.b64decode(text).decode() for name, text in pairs}

    def is_started(self) -> bool:
        """Whether slurmd has started."""
        return self.machine.succeeds("systemctl is-active --quiet slurmd.service") and bool(self.found())

    def journal(self, step: str) -> str:
        """The journal of the step's unit in this boot."""
        return self.machine.run(f"journalctl --boot --no-pager --output=cat --unit=hpcai-{step}.service")


def put(machine: Machine, source: Path, path: str) -> None:
    """Copy a binary file to the machine."""
    text = base64.b64encode(source.read_bytes()).decode("ascii")
    machine.run(f"mkdir -p $(dirname {path}); base64 -d > {path}", stdin=text)


def assert_all_good(node: Node) -> None:
    """Check that all steps succeeded before slurmd started."""
    status = node.status()
    assert [status["steps"][step]["verdict"] in GOOD for step in STEPS] == [True] * len(STEPS), status
    assert (status["state"], status["blocking"]) == ("ready", [])
    assert status["steps"]["scratch"]["verdict"] == "pass"
    found = node.found()
    assert "xfs" in found["scratch"]
    assert found["directories"].splitlines() == [
        f"{MOUNTPOINT}/data root:root 1777",
        f"{MOUNTPOINT}/data/games root:games 2775",
    ]
    assert f"-N {NODE_NAME} --conf-server 10.0.0.4" in found["slurmd.env"]
    assert found["clocks"].count("set.application_graphics=1410") == 2
    assert NCCL_BLOCK in found["nccl.conf"]
    assert "NCCL_TOPO_FILE=/var/lib/hpcai/nccl-topo.xml" in found["nccl.conf"]
    assert node.machine.run("grep -o 0002:00:00.0 /var/lib/hpcai/nccl-topo.xml")
    assert len(node.scratch.members()) == qemu.DISKS


def assert_blocked(node: Node, status: dict[str, Any], step: str, *words: str) -> str:
    """Check that the step keeps slurmd from starting and reports the reason; returns the step's summary."""
    assert status["state"] == "blocked"
    assert step in status["blocking"]
    assert not node.is_started()
    assert node.found() == {}
    summary = str(status["steps"][step]["summary"])
    assert all(word in summary for word in words), summary
    assert summary in node.journal(step)
    return summary
