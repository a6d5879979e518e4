# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action nccl_pairs: what it shows while the module runs, and what it makes of a host that is away."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.azure.plugins.action import nccl_pairs
from ansible_collections.hpcai.azure.plugins.plugin_utils import _progress

JOB = {"ansible_job_id": "j1.2", "results_file": "/home/azureuser/.ansible_async/j1.2", "started": 1, "finished": 0}
RESULT = {"bad": ["n-2"], "changed": False}
AWAY = AnsibleConnectionFailure("no route to host")


class Host:
    """A host on which the module runs: what each look finds, None for the end."""

    def __init__(self, *looks: Any, started: dict[str, Any] | None = None) -> None:
        self.looks = list(looks)
        self.started = JOB if started is None else started
        self.now = 0.0
        self.calls: list[tuple[str, Any]] = []
        self.lines: list[str] = []
        self.task: Any = SimpleNamespace(args={"nodes": ["n-[0-5]"]}, check_mode=False, async_val=0, delegate_to=None)

    def execute(self, module: str | None, given: Any, is_async: Any) -> dict[str, Any]:
        """Run a module."""
        if module is None:
            self.calls.append(("start" if is_async else "run", given))
            assert not is_async or self.task.async_val
            return {**self.started, "changed": True} if is_async else dict(RESULT)
        assert module == "ansible.legacy.async_status"
        assert (given["jid"], given["_async_dir"]) == ("j1.2", "/home/azureuser/.ansible_async")
        self.calls.append((given["mode"], given))
        if given["mode"] == "cleanup":
            return {"erased": "it"}
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return {**JOB, **RESULT, "finished": 1, "stdout": ""} if found is None else dict(JOB)

    def command(self, words: str) -> dict[str, Any]:
        """Run a command."""
        if isinstance(self.looks[0], Exception):
            raise self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        self.calls.append(("look", words))
        return {"rc": 0 if self.looks[0] else 1, "stdout": f"{self.looks[0]}\n" if self.looks[0] else ""}

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the action on a host."""

    def run(host: Host) -> dict[str, Any]:
        class Action(nccl_pairs.ActionModule):
            def __init__(self) -> None:
                self._task = host.task

            def _execute_module(  # type: ignore[override]
                self, module_name: Any = None, module_args: Any = None, task_vars: Any = None, wrap_async: Any = False
            ) -> Any:
                return host.execute(module_name, module_args, wrap_async)

            def _low_level_execute_command(self, cmd: str, *_more: Any, **_others: Any) -> Any:
                return host.command(cmd)

        monkeypatch.setattr(nccl_pairs, "time", SimpleNamespace(monotonic=lambda: host.now, sleep=host.sleep))
        monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
        monkeypatch.setattr(
            nccl_pairs, "Progress", lambda name: _progress.Progress(name, host.lines.append, lambda: host.now)
        )
        return Action().run(None, {"inventory_hostname": "login"})

    return run


def test_it_shows_each_pair_and_returns_what_the_module_found(call: Any) -> None:
    host = Host("", "round 1: pair 0 of 2 done", "round 1: pair 1 of 2 done", "round 1: pair 1 of 2 done", None)
    assert call(host) == RESULT
    assert host.lines == ["login: round 1: pair 0 of 2 done", "login: round 1: pair 1 of 2 done"]
    assert [name for name, _given in host.calls] == ["start", *["look", "status"] * 5, "cleanup"]
    assert host.task.async_val == 0


def test_the_folder_is_one_that_nobody_can_guess(call: Any) -> None:
    folders = []
    for _time in range(2):
        host = Host(None)
        call(host)
        given = host.calls[0][1]
        assert given == {"nodes": ["n-[0-5]"], "progress": given["progress"]}
        assert re.fullmatch(r"/tmp/hpcai-nccl-pairs-[0-9a-f]{32}", given["progress"])
        assert host.calls[1][1] == f"touch {given['progress']}/watched && cat {given['progress']}/progress"
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


def test_a_module_that_does_not_start_is_the_result(call: Any) -> None:
    host = Host(started={"failed": True, "msg": "no Python"})
    done = call(host)
    assert (done["failed"], done["msg"], len(host.calls)) == (True, "no Python", 1)


@pytest.mark.parametrize("which", ["check_mode", "async_val"])
def test_check_mode_and_async_run_the_module_alone(call: Any, which: str) -> None:
    host = Host()
    setattr(host.task, which, 60)
    call(host)
    assert [name for name, _given in host.calls] == ["start" if which == "async_val" else "run"]
