# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""slurmctld on the role's files for large clusters: a second one on the controller, with ports and a state of its own.

Its nodes are not there. What counts is that it takes every line of every file, and how long it needs until it answers.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from testinfra.host import Host

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDER = "/run/hpcai-large"
UNIT = "hpcai-test-large"
# Seconds; a slurmctld of 2,000 nodes starts in a fraction of it, on a machine that has nothing else to do.
LIMIT = 60
# What two slurmctld of one machine cannot share, and what simulated nodes have not.
PRIVATE = {
    "slurm_conf": {
        "SlurmctldPort": 16817,
        "SlurmdPort": 16818,
        "StateSaveLocation": f"{FOLDER}/state",
        "SlurmctldPidFile": f"{FOLDER}/slurmctld.pid",
        "SlurmctldLogFile": f"{FOLDER}/slurmctld.log",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": ["task/affinity"],
        "JobAcctGatherType": None,
        "AccountingStorageType": None,
        "AccountingStorageHost": None,
        "AccountingStorageTRES": None,
        "AccountingStorageEnforce": None,
        "JobContainerType": None,
    },
    "slurm_private_tmp": "",
    "slurm_cgroup_conf": {"CgroupPlugin": "cgroup/v1"},
}


def write(nodes: int, folder: Path, hostname: str) -> dict[str, str]:
    """What the role writes for so many nodes, all of them at an address where nothing answers."""
    variables = {**PRIVATE, "slurm_conf": {**PRIVATE["slurm_conf"], "SlurmctldHost": f"{hostname}(127.0.0.1)"}}
    command = [sys.executable, "-m", "benchmarks.slurm_conf", "--write", str(folder), "--nodes", str(nodes)]
    paths = os.pathsep.join([str(REPOSITORY / "tests"), str(REPOSITORY / ".collections")])
    subprocess.run(
        [*command, "--variables", json.dumps(variables)],
        env={**os.environ, "PYTHONPATH": paths},
        timeout=300,
        check=True,
    )
    return {
        path.name: re.sub(r"NodeAddr=\S+", "NodeAddr=127.0.0.1", path.read_text(encoding="utf-8"))
        for path in folder.glob("*.conf")
    }


@pytest.mark.parametrize("nodes", [600, pytest.param(2000, marks=pytest.mark.thorough)])
def test_slurmctld_starts_on_the_files_of_a_large_cluster(controller: Host, tmp_path: Path, nodes: int) -> None:
    files = write(nodes, tmp_path / "files", controller.check_output("hostname --short"))
    controller.check_output(f"rm -rf {FOLDER} && install -d -o slurm {FOLDER} {FOLDER}/state")
    try:
        for name, text in files.items():
            encoded = base64.b64encode(text.encode()).decode()
            controller.check_output(f"echo {encoded} | base64 --decode > {FOLDER}/{name}")
        begun = time.monotonic()
        # By env, as Debian's slurmctld wants to be called by its plain name.
        controller.check_output(
            f"systemd-run --quiet --collect --unit={UNIT} --setenv=SLURM_CONF={FOLDER}/slurm.conf"
            f" env slurmctld -D -f {FOLDER}/slurm.conf"
        )
        ask = f"SLURM_CONF={FOLDER}/slurm.conf"
        while not controller.run(f"{ask} timeout 10 scontrol ping").stdout.count("UP"):
            log = controller.run(f"tail -n 20 {FOLDER}/slurmctld.log").stdout
            assert time.monotonic() - begun < LIMIT, log
            time.sleep(0.2)
        print(f"slurmctld answered {time.monotonic() - begun:.1f} s after its start with {nodes} nodes")
        shown = controller.check_output(f"{ask} sinfo --noheader --Node --format=%%N:%%f:%%G").split()
        # 32 spare ones of each of the two sets.
        assert len(shown) == nodes + 64
        assert any(line.startswith("a100-0:nd96asr_v4,a100,ib200,nvme:gpu:a100:8") for line in shown)
        assert {line.partition("-")[0] for line in shown} == {"a100", "h100"}
        switches = controller.check_output(f"{ask} scontrol show topology").splitlines()
        assert [line.split()[0] for line in switches] == ["SwitchName=a100", "SwitchName=h100"]
        log = controller.check_output(f"cat {FOLDER}/slurmctld.log")
        # It finds no state, and nobody answers it; other errors are about the files.
        errors = [line for line in log.splitlines() if "error:" in line]
        assert not [line for line in errors if re.search(r"\.conf|gres|topolog|pars|unrecogni", line, re.I)]
    finally:
        controller.run(f"systemctl stop {UNIT}; rm -rf {FOLDER}")
