# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ids of the packages' users, the recorded versions, and what needs another package."""

from __future__ import annotations

import json

from testinfra.host import Host


def test_slurm_and_munge_have_the_same_ids_everywhere(controller: Host, computes: list[Host]) -> None:
    for host in (controller, *computes):
        ids = {name: host.check_output(f"id -u {name}; id -g {name}").split() for name in ("slurm", "munge")}
        assert ids == {"slurm": ["64030", "64030"], "munge": ["11101", "11101"]}
        # The packages were installed after the accounts were created, and use them.
        assert host.file("/var/lib/munge").user == "munge"
        assert host.check_output("ps -o user= -C munged") == "munge"
        assert host.check_output("find /etc/munge /etc/slurm /var/lib/munge /var/log/munge -nouser") == ""


def test_the_recorded_version_is_that_of_the_daemons(controller: Host, computes: list[Host]) -> None:
    for host, daemon in ((controller, "slurmctld"), *((host, "slurmd") for host in computes)):
        record = json.loads(host.file("/etc/ansible/facts.d/hpcai_slurm.fact").content_string)
        assert host.check_output(f"{daemon} -V") == f"slurm-wlm {record['version']}"
        assert record["source"] == "distribution"


def test_slurmds_spool_is_a_file_system_that_users_cannot_fill(computes: list[Host]) -> None:
    """Without mkfs.ext4, slurmd starts all the same, and a job that fills the disk drains its node."""
    for host in computes:
        assert host.check_output("findmnt --noheadings --output FSTYPE --mountpoint /var/lib/slurm/slurmd") == "ext4"
