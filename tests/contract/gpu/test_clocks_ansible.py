# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gpu_clocks as Ansible packs, sends and runs it. In check mode, because the module would change this machine."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

from stand_ins.gpu_machine import REPOSITORY, GpuMachine


def test_ansible_sends_all_files_that_the_module_needs(machine: GpuMachine, tmp_path: pathlib.Path) -> None:
    machine.play(gpu__3__lost=1)
    command = ["ansible", "localhost", "--check", "--one-line", "-m", "hpcai.azure.gpu_clocks"]
    settings = {
        "ANSIBLE_LOCAL_TEMP": str(tmp_path),
        "ANSIBLE_REMOTE_TEMP": str(tmp_path),
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
    }
    done = subprocess.run(
        [*command, "-e", f"ansible_python_interpreter={sys.executable}"],
        cwd=REPOSITORY,
        env={**os.environ, **machine.environment, **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    answer = json.loads(done.stdout[done.stdout.index("{") :])
    assert answer["msg"].endswith("nvmlDeviceGetHandleByIndex: GPU is lost")
    assert [gpu["failed"] for gpu in answer["gpus"]] == [False] * 3 + [True] + [False] * 4
    assert (answer["via"], machine.state) == ("nvml", {})
