# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role slurm in a user's play reports all missing variables at once, and contacts no host."""

from __future__ import annotations

import pathlib
import stat
import subprocess
from collections.abc import Callable

import yaml

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]


def test_missing_variables_are_reported_before_any_host_is_contacted(
    tmp_path: pathlib.Path, ansible_playbook: AnsiblePlaybook
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ntouch '{tmp_path}/contacted'\nexit 255\n", encoding="utf-8")
    ssh.chmod(stat.S_IRWXU)
    play = {"name": "Run Slurm", "hosts": "all", "gather_facts": False, "roles": ["hpcai.azure.slurm"]}
    hosts = {"all": {"children": {"hpcai_compute": {"hosts": {"gpu1": None, "gpu2": None}}}}}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")

    done = ansible_playbook(tmp_path, "-i", "hosts.yml", "play.yml", ANSIBLE_SSH_EXECUTABLE=str(ssh))

    output = " ".join(done.stdout.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Nothing was done. The role hpcai.azure.slurm needs these:" in output
    assert "slurm_controller: no host is in the group hpcai_controller" in output
    assert "azure_vm_size is not set on gpu1, gpu2." in output
    assert "ansible_facts lack architecture" in output
    assert not (tmp_path / "contacted").exists()
