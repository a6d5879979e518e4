# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The timer that verifies checkpoints: its units are valid, and are removed when no store is listed.

The tasks run on this machine in a mount namespace, with a stand-in for systemctl.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import subprocess

import pytest
import yaml
from stand_ins import own_folders

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import all_commands, build_parser

from .conftest import LOCAL

UNIT, TIMER = "hpcai-checkpoint-verify.service", "hpcai-checkpoint-verify.timer"
STORES = ["https://a.blob.core.windows.net/checkpoints/my%20model", "https://a.blob.core.windows.net/other"]
SYSTEMCTL = """\
#!/bin/sh
echo "$@" >>{calls}
case " $* " in
  *" show "*) printf 'LoadState=loaded\\nActiveState=active\\n' ;;
  *" is-enabled "*) exit 1 ;;
esac
"""


def test_checkpoints_are_verified_on_a_schedule_until_no_store_is_listed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, calls, copies = tmp_path / "programs", tmp_path / "calls", tmp_path / "copies"
    programs.mkdir()
    copies.mkdir()
    (programs / "systemctl").write_text(SYSTEMCTL.format(calls=calls))
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    role = {"name": "hpcai.azure.blob_staging"}
    copy = f"cp /etc/systemd/system/{UNIT} /etc/systemd/system/{TIMER} {copies}"
    tasks = [
        {"ansible.builtin.include_role": {**role, "tasks_from": "verify.yml"}},
        {"ansible.builtin.command": {"cmd": copy}},
        {"ansible.builtin.include_role": {**role, "tasks_from": "verify_absent.yml"}},
        {
            "ansible.builtin.command": {
                "cmd": f"test ! -e /etc/systemd/system/{UNIT} -a ! -e /etc/systemd/system/{TIMER}"
            }
        },
    ]
    content = [{"hosts": "node", "gather_facts": False, "tasks": tasks}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    variables = {"blob_staging_verify": STORES, "blob_staging_verify_signed": True}
    node = {**LOCAL, "ansible_facts": {}, **variables}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"node": node}}}), encoding="utf-8")
    done = own_folders.ansible_playbook(tmp_path, "-i", "hosts.yml", "play.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    asked = calls.read_text().splitlines()
    assert [line for line in asked if line.startswith(("enable", "restart", "start", "stop", "disable"))] == [
        f"enable {TIMER}",
        f"restart {TIMER}",
        f"stop {TIMER}",
    ]
    assert asked.index("daemon-reload") < asked.index(f"restart {TIMER}")
    unit = (copies / UNIT).read_text()
    # A writer of the stores must not take the memory of slurmctld.
    assert {"MemoryMax=2G", "OOMScoreAdjust=1000"} <= set(unit.splitlines())
    (command,) = [line.partition("=")[2] for line in unit.splitlines() if line.startswith("ExecStart=")]
    # systemd replaces %% by %.
    words = shlex.split(command.replace("%%", "%"))
    assert words[0] == "/usr/bin/hpcnode"
    args = build_parser(all_commands()).parse_args(words[1:])
    assert (args.action, args.all, args.signed, args.full, args.stores) == ("verify", True, True, False, STORES)
    assert "OnCalendar=*-*-* 03:00" in (copies / TIMER).read_text()
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    (copies / UNIT).write_text(unit.replace("/usr/bin/hpcnode", "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copies / TIMER)], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
