# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests which features Slurm can use in containers on this host."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "host.json"
"""In the state folder of the simulator; inventories read it."""
CGROUPS = Path("/sys/fs/cgroup")
NEEDED_V1 = ("cpuset", "devices", "freezer", "memory")
"""Controllers of Slurm's cgroup/v1 (src/plugins/cgroup/v1/cgroup_v1.c); cpuacct is part of cpuset there."""
NEEDED_V2 = ("cpuset", "memory")
"""Controllers of Slurm's cgroup/v2, which limits devices with a BPF program."""
_TRIES = 4
# Makes a namespace on one CPU, and in it mounts namespaces made on another CPU on a file, as job_container/tmpfs does.
_NESTED = """
cd "$1" && mount --bind . . && cd "$1" && mount --make-private . && touch namespace
for try in $(seq "$3"); do
  taskset --cpu-list "$2" unshare --mount="$1/namespace" true || exit 1
  umount namespace
done
"""


@dataclass(frozen=True)
class Abilities:
    """Which features work, and why the others do not.

    :ivar cgroups: Slurm's cgroup plugin that works; empty if none works.
    :ivar private_tmp: whether a job can have its own /tmp (job_container/tmpfs).
    """

    cgroups: str
    cgroups_because: str
    private_tmp: bool
    private_tmp_because: str

    def lines(self) -> list[str]:
        """Return lines to print."""
        return [
            f"cgroups for jobs: {self.cgroups or 'none'} ({self.cgroups_because})",
            f"a private /tmp for each job: {'yes' if self.private_tmp else 'no'} ({self.private_tmp_because})",
        ]


def probe(cgroups: Path = CGROUPS) -> Abilities:
    """Test the features. This takes less than a second and leaves nothing behind."""
    return Abilities(*_cgroups(cgroups), *_namespaces())


def write(abilities: Abilities, state_dir: Path) -> None:
    """Write the result to the file that the inventory reads."""
    (state_dir / FILE).write_text(json.dumps(asdict(abilities), indent=2) + "\n", encoding="utf-8")


def _cgroups(top: Path) -> tuple[str, str]:
    unified = top / "cgroup.controllers"
    if unified.exists():
        missing = sorted({*NEEDED_V2} - {*unified.read_text(encoding="ascii").split()})
        if missing:
            return "", f"cgroups v2 without {', '.join(missing)}"
        return "cgroup/v2", "cgroups v2 with all controllers that Slurm needs"
    missing = [name for name in NEEDED_V1 if not (top / name / "tasks").exists()]
    if missing:
        return "", f"cgroups v1 without {', '.join(missing)}"
    return "cgroup/v1", "cgroups v1 with all controllers that Slurm needs"


def _namespaces() -> tuple[bool, str]:
    """Return whether a job's namespace can be mounted, whichever CPUs slurmd and the job's first process run on.

    Linux refuses to mount a namespace that is older than the one it is mounted in, and compares ids for that. Since
    6.18, each CPU allocates ids from its own batch, so that a younger namespace can have a lower id.
    """
    cpus = sorted(os.sched_getaffinity(0))
    for outer in cpus[:2]:
        for inner in cpus[:2]:
            with tempfile.TemporaryDirectory() as folder:
                nested = ["sh", "-c", _NESTED, "sh", folder, str(inner), str(_TRIES)]
                done = subprocess.run(
                    ["taskset", "--cpu-list", str(outer), "unshare", "--mount", "--propagation=private", *nested],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                )
            if done.returncode:
                words = done.stderr.strip().splitlines()
                return False, f"mounting a mount namespace failed: {words[-1] if words else done.returncode}"
    return True, "mount namespaces can be mounted"
