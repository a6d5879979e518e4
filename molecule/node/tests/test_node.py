# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a node with GPUs after the roles ran. The library of the GPU driver is a stand-in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from testinfra.host import Host


def settings(node: Host, name: str) -> dict[str, Any]:
    """The content of a settings file of the node."""
    return dict(json.loads(node.file(f"/etc/hpcai/{name}.json").content_string))


@pytest.fixture(scope="module")
def status(node: Host) -> dict[str, Any]:
    """The result of each step of the boot phase, as `hpcnode boot status` reports it."""
    report = json.loads(node.run("hpcnode boot status --json").stdout)
    return {step["name"]: step for step in report["steps"]}


def test_gpus_are_detected_and_run_at_their_highest_clocks(node: Host, status: dict[str, Any]) -> None:
    assert status["gpu"]["verdict"] in ("pass", "warn"), status["gpu"]
    assert "2" in status["gpu"]["summary"]
    state = node.file("/var/lib/nvml-stand-in/state").content_string
    # The stand-in records what was set: application clocks of an A100 with 40 GB at 1215 and 1410 MHz.
    assert state.count("=1410") == 2
    assert settings(node, "clocks")["state"] == "max"


def test_clocks_are_applied_again_after_a_reload_of_the_driver(node: Host) -> None:
    """A reloaded driver loses its clock settings, and so does the stand-in. The test restarts the unit as udev does."""
    node.check_output("rm /var/lib/nvml-stand-in/state")
    assert node.run("hpcnode clocks status").rc == 1
    node.check_output("systemctl restart hpcai-clocks.service")
    assert node.run("hpcnode clocks status").rc == 0


def test_a_missing_gpu_keeps_slurmd_from_starting(node: Host) -> None:
    node.check_output("sed -i s/gpus=2/gpus=1/ /var/lib/nvml-stand-in/config")
    try:
        assert node.run("systemctl restart hpcai-gpu.service").rc != 0
        report = node.run("hpcnode boot status")
        assert report.rc == 1
        assert "slurmd does not start because of gpu" in report.stdout
        assert "hpcai-gpu.service" in node.check_output("systemctl show --property=Requires slurmd")
    finally:
        node.check_output("sed -i s/gpus=1/gpus=2/ /var/lib/nvml-stand-in/config")
    node.check_output("systemctl restart hpcai-gpu.service")


def test_scratch_on_the_temporary_disk_is_a_warning(node: Host, status: dict[str, Any]) -> None:
    assert node.mount_point("/scratch").exists
    folder = node.file("/scratch/data")
    assert (folder.is_directory, folder.user, oct(folder.mode)) == (True, "root", "0o1777")
    assert status["directories"]["verdict"] == "warn"
    assert "not on NVMe disks" in status["directories"]["summary"]


def test_shells_get_nccl_variables_and_jobs_can_override_them(node: Host) -> None:
    script = "/etc/profile.d/hpcai-nccl.sh"
    assert node.file(script).exists
    for shell in ("dash", "bash"):
        command = f"{shell} -c '. {script}; echo $OMPI_MCA_coll_hcoll_enable'"
        assert node.check_output(command) == "0"
        own = node.check_output(f"OMPI_MCA_coll_hcoll_enable=1 {command}")
        assert own == "1", "the job's own value must take precedence"


def test_external_file_systems_are_mounted_on_first_access(node: Host) -> None:
    """The kernel of a container has no Lustre, so the test does not access the mount."""
    unit = node.file("/etc/systemd/system/lustre.mount").content_string
    assert "What=10.0.1.7@tcp:/lustrefs" in unit
    assert "Type=lustre" in unit
    assert node.service("lustre.automount").is_enabled
    assert not node.mount_point("/lustre").exists


def test_the_image_is_configured_for_large_jobs(node: Host) -> None:
    """The role sets no limits in a container: its host sets them, and a login that cannot raise its limits fails."""
    assert "vm.zone_reclaim_mode" in node.file("/etc/sysctl.d/99-zz-hpcai-image.conf").content_string
    assert not node.file("/etc/security/limits.d/90-hpcai-image.conf").exists
    baked = json.loads(node.file("/etc/ansible/facts.d/hpcai_image.fact").content_string)
    assert baked["version"]
    assert baked["parts"]


def test_starting_the_boot_target_runs_the_boot_phase(node: Host) -> None:
    """The test removes the results of the last boot, and then starts the target as systemd does at a boot."""
    node.check_output("systemctl stop 'hpcai-*.service'; umount /scratch; rm -rf /run/hpcai/boot")
    node.run("systemctl start hpcai-boot.target")
    report = json.loads(node.run("hpcnode boot status --json").stdout)
    verdicts = {step["name"]: step["verdict"] for step in report["steps"]}
    for name in ("gpu", "fabric", "scratch", "directories", "clocks", "nccl"):
        assert verdicts[name] in ("pass", "warn", "skip"), report
    assert node.mount_point("/scratch").exists
