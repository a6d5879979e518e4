# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module in the background: what Ansible shows while it runs, and what it makes of a host that is away."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.hpcai.azure.plugins.plugin_utils import _background, _progress

JOB = {"ansible_job_id": "j1.2", "results_file": "/home/azureuser/.ansible_async/j1.2", "started": 1, "finished": 0}
RESULT = {"bad": ["n-2"], "changed": False}
AWAY = AnsibleConnectionFailure("no route to host")
BOOT_ID = "11111111-2222-3333-4444-555555555555"
READ_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
RESTARTED = "restarted"


class Host:
    """A host on which a module runs, and the action of the task: what each look finds, None for the end."""

    def __init__(self, *looks: Any, started: dict[str, Any] | None = None, boot_id: str = BOOT_ID) -> None:
        self.looks = list(looks)
        self.started, self.boot_id = JOB if started is None else started, boot_id
        self.now = 0.0
        self.calls: list[tuple[str, Any]] = []
        self.lines: list[str] = []
        self.look: Any = ""
        self.cleanup: Any = {"erased": "it"}
        self._task: Any = SimpleNamespace(args={"nodes": ["n-[0-5]"]}, async_val=0, delegate_to=None)

    def _execute_module(
        self, module_name: str | None = None, module_args: Any = None, task_vars: Any = None, wrap_async: bool = False
    ) -> dict[str, Any]:
        if module_name is None:
            assert wrap_async
            assert self._task.async_val
            self.calls.append(("start", module_args))
            return {**self.started, "changed": True}
        assert module_name == "ansible.legacy.async_status"
        assert (module_args["jid"], module_args["_async_dir"]) == ("j1.2", "/home/azureuser/.ansible_async")
        self.calls.append((module_args["mode"], module_args))
        if module_args["mode"] == "cleanup":
            if isinstance(self.cleanup, Exception):
                raise self.cleanup
            return dict(self.cleanup)
        return {**JOB, **RESULT, "finished": 1, "stdout": ""} if self.look is None else dict(JOB)

    def _low_level_execute_command(self, words: str) -> dict[str, Any]:
        if words == READ_BOOT_ID:
            return {"rc": 0, "stdout": f"Welcome!\r\n{self.boot_id}\n"}
        self.look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(self.look, Exception):
            raise self.look
        self.calls.append(("look", words))
        if self.look == RESTARTED:
            return {"rc": 97, "stdout": ""}
        return {"rc": 0 if self.look else 1, "stdout": f"{self.look}\n" if self.look else ""}

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        assert self.now < 3600, "it waits forever"

    def steps(self) -> list[str]:
        """The kinds of all calls."""
        return [kind for kind, _given in self.calls]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the module on a host."""

    def run(host: Host) -> dict[str, Any]:
        monkeypatch.setattr(_background, "time", SimpleNamespace(monotonic=lambda: host.now, sleep=host.sleep))
        monkeypatch.setattr(
            _background, "Progress", lambda name: _progress.Progress(name, host.lines.append, lambda: host.now)
        )
        action: Any = host
        return _background.Background(action, {"inventory_hostname": "login"}, "nccl-pairs").run()

    return run


def test_it_shows_each_step_and_returns_what_the_module_found(call: Any) -> None:
    host = Host("", "round 1: pair 0 of 2 done", "round 1: pair 1 of 2 done", "round 1: pair 1 of 2 done", None)
    assert call(host) == RESULT
    assert host.lines == ["login: round 1: pair 0 of 2 done", "login: round 1: pair 1 of 2 done"]
    assert host.steps() == ["start", "look", "status", *["look"] * 4, "status", "cleanup"]
    assert host._task.async_val == 0


def test_a_module_that_has_ended_before_the_first_look_shows_nothing(call: Any) -> None:
    host = Host(None)
    assert call(host) == RESULT
    assert (host.lines, host.steps()) == ([], ["start", "look", "status", "cleanup"])


def test_a_folder_that_a_killed_module_left_does_not_hide_its_end(call: Any) -> None:
    host = Host("round 1: pair 0 of 2 done")
    killed = {**JOB, "failed": True, "msg": "killed", "finished": 1}
    run = host._execute_module
    host._execute_module = lambda *given, **named: (  # type: ignore[method-assign]
        killed if named.get("module_args", {}).get("mode") == "status" else run(*given, **named)
    )
    assert call(host) == {"failed": True, "msg": "killed"}
    assert host.now == 60


def test_the_folder_is_one_that_nobody_can_guess(call: Any) -> None:
    folders = []
    for _time in range(2):
        host = Host(None)
        call(host)
        given = host.calls[0][1]
        assert given == {"nodes": ["n-[0-5]"], "progress": given["progress"]}
        assert re.fullmatch(r"/tmp/hpcai-nccl-pairs-[0-9a-f]{32}", given["progress"])
        look = f"touch {given['progress']}/watched && cat {given['progress']}/progress"
        assert host.calls[1][1] == f'test "$({READ_BOOT_ID})" = {BOOT_ID} || exit 97; {look}'
        folders.append(given["progress"])
    assert folders[0] != folders[1]


def test_a_host_that_is_away_for_a_while_ends_nothing(call: Any) -> None:
    host = Host("round 1: pair 0 of 2 done", AWAY, AWAY, "round 1: pair 1 of 2 done", None)
    assert call(host) == RESULT
    assert len(host.lines) == 2


def test_a_host_that_stays_away_is_unreachable(call: Any) -> None:
    host = Host("round 1: pair 0 of 2 done", AWAY)
    with pytest.raises(AnsibleConnectionFailure):
        call(host)
    assert 180 < host.now < 200


def test_a_host_that_is_away_after_the_end_loses_no_result(call: Any) -> None:
    host = Host(None)
    host.cleanup = AWAY
    assert call(host) == RESULT


def test_a_host_that_restarted_is_a_failure(call: Any) -> None:
    host = Host("round 1: pair 0 of 2 done", AWAY, RESTARTED)
    done = call(host)
    assert (done["failed"], done["msg"]) == (
        True,
        "The host restarted before the module ended, so there is no result.",
    )


@pytest.mark.parametrize(("boot_id", "status"), [("", 97), ("/proc/sys/kernel/random/boot_id", 0)])
def test_the_look_notices_a_restart(tmp_path: Path, boot_id: str, status: int) -> None:
    action: Any = None
    background = _background.Background(action, {}, "test")
    background._folder = str(tmp_path)
    (tmp_path / "progress").write_text("check 31 of 38: gemm\n", encoding="utf-8")
    known = Path(boot_id).read_text(encoding="utf-8").strip() if boot_id else BOOT_ID
    done = subprocess.run(["sh", "-c", background._look(known)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, "" if status else "check 31 of 38: gemm\n")
    assert (tmp_path / "watched").exists() is not bool(status)


def test_without_a_boot_id_the_look_expects_no_certain_one(call: Any) -> None:
    host = Host(None, boot_id="")
    assert call(host) == RESULT
    assert host.calls[1][1].startswith("touch /tmp/hpcai-nccl-pairs-")


def test_a_module_that_does_not_start_is_the_result(call: Any) -> None:
    host = Host(started={"failed": True, "msg": "no Python"})
    assert call(host) == {"failed": True, "msg": "no Python", "changed": False}
    assert host.steps() == ["start"]
