# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""slurmctld accepts the role's files for large clusters. A second slurmctld runs on the controller, with its own ports
and state.

Its nodes do not exist. The tests check that it accepts every line of every file, and limit the time until it answers.
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
# Seconds. On an idle machine, slurmctld starts with 2,000 nodes in a fraction of this time.
LIMIT = 60
# Settings that two slurmctld on one machine cannot share, and features that simulated nodes lack.
OVERRIDES = {
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
    """Return the files that the role writes for this many nodes, all with an address where nothing answers."""
    variables = {**OVERRIDES, "slurm_conf": {**OVERRIDES["slurm_conf"], "SlurmctldHost": f"{hostname}(127.0.0.1)"}}
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


@pytest.mark.thorough
@pytest.mark.parametrize("nodes", [600, 2000])
def test_slurmctld_starts_with_the_files_of_a_large_cluster(controller: Host, tmp_path: Path, nodes: int) -> None:
    files = write(nodes, tmp_path / "files", controller.check_output("hostname --short"))
    controller.check_output(f"rm -rf {FOLDER} && install -d -o slurm {FOLDER} {FOLDER}/state")
    try:
        for name, text in files.items():
            encoded = base64.b64encode(text.encode()).decode()
            controller.check_output(f"echo {encoded} | base64 --decode > {FOLDER}/{name}")
        begun = time.monotonic()
        # Through env, because Debian's slurmctld must be called by its name without a path.
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
        # Each of the two scale sets has 32 spares.
        assert len(shown) == nodes + 64
        assert any(line.startswith("a100-0:nd96asr_v4,a100,ib200,nvme:gpu:a100:8") for line in shown)
        assert {line.partition("-")[0] for line in shown} == {"a100", "h100"}
        switches = controller.check_output(f"{ask} scontrol show topology").splitlines()
        assert [line.split()[0] for line in switches] == ["SwitchName=a100", "SwitchName=h100"]
        log = controller.check_output(f"cat {FOLDER}/slurmctld.log")
        # Errors about missing state and about nodes that do not answer are expected; errors about files are not.
        errors = [line for line in log.splitlines() if "error:" in line]
        assert not [line for line in errors if re.search(r"\.conf|gres|topolog|pars|unrecogni", line, re.I)]
    finally:
        controller.run(f"systemctl stop {UNIT}; rm -rf {FOLDER}")
