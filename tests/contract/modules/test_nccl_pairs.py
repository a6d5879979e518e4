# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nccl_pairs through Ansible, which runs it in the background: its lines, its result, and what it leaves."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

import yaml

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]

SCONTROL = """#!/bin/sh
for node in n-0 n-1; do echo "NodeName=$node CPUTot=1 State=IDLE Weight=1"; done
"""
# Longer than the action waits between two looks.
SRUN = """#!/bin/sh
sleep 8
cat <<'END'
# nThread 1 nGpus 1 minBytes 8589934592 maxBytes 8589934592 step: 1048576(bytes) warmup iters: 5 iters: 20
  8589934592    2147483648     float     sum      -1   91850   93.52  187.3  0   91790   93.58  187.3  0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 187.3
END
"""


def test_ansible_shows_how_far_the_module_is(tmp_path: pathlib.Path, ansible_playbook: AnsiblePlaybook) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("scontrol", SCONTROL), ("squeue", "#!/bin/sh\n"), ("srun", SRUN)):
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o700)
    node = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"login": node}}}), encoding="utf-8")
    search = {"hpcai.azure.nccl_pairs": {"nodes": ["n-[0-1]"], "gpus": 8, "limit": 175}, "register": "found"}
    shown = {"content": "{{ found | to_json }}", "dest": f"{tmp_path}/found", "mode": "0600"}
    play = {"hosts": "login", "gather_facts": False, "tasks": [search, {"ansible.builtin.copy": shown}]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")

    done = ansible_playbook(
        tmp_path, "-vvv", "-i", "hosts.yml", "play.yml", HOME=str(tmp_path), PATH=f"{programs}:{os.environ['PATH']}"
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "login: round 1: pair 0 of 1 done\n" in done.stdout
    found = json.loads((tmp_path / "found").read_text(encoding="utf-8"))
    assert (found["changed"], found["good"], found["rounds"]) == (False, ["n-0", "n-1"], 1)
    assert not {"ansible_job_id", "finished", "results_file", "stdout"} & set(found)
    assert list((tmp_path / ".ansible_async").iterdir()) == []
    # The commands that read the progress name the folder.
    [folder] = set(re.findall(r"/tmp/hpcai-nccl-pairs-[0-9a-f]{32}\b", done.stdout))
    assert not pathlib.Path(folder).exists()
