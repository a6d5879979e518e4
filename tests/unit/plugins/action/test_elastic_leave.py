# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action elastic_leave: what it sends, how long it waits, and what it shows."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.azure.plugins.action import elastic_leave
from ansible_collections.hpcai.azure.plugins.plugin_utils import _progress

TWO = {"gpu-0": "1c7a", "gpu-1": "2d8b"}
COMMAND = ["hpcnode", "elastic", "retire", "--json", "--reason", "faulty", "1c7a", "2d8b"]


def left(machines: dict[str, str]) -> dict[str, Any]:
    """What hpcnode answers while machines are left, and when none is."""
    return {"rc": 2 if machines else 0, "stdout": json.dumps({"machines": machines})}


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the action with these answers; a sleep moves the clock."""

    def run(*answers: Any, check: bool = False, timeout: int = 3600) -> tuple[dict[str, Any], list[str], list[Any]]:
        waiting, now = list(answers), [1000.0]
        lines: list[str] = []
        sent: list[Any] = []

        class Action(elastic_leave.ActionModule):
            def __init__(self) -> None:
                given = {"vm_ids": ["1c7a", "2d8b"], "reason": "faulty", "timeout": timeout}
                self._task: Any = SimpleNamespace(args=given, check_mode=check, delegate_to="")

            def validate_argument_spec(self, argument_spec: Any = None, *_more: Any, **_others: Any) -> Any:
                assert set(self._task.args) == set(argument_spec)
                return None, self._task.args

            def _execute_module(self, module_args: Any = None, **_more: Any) -> Any:  # type: ignore[override]
                sent.append(module_args["argv"])
                answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                if isinstance(answer, Exception):
                    raise answer
                return answer

        def sleep(seconds: float) -> None:
            now[0] += seconds

        monkeypatch.setattr(elastic_leave, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
        monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
        monkeypatch.setattr(
            elastic_leave, "Progress", lambda host: _progress.Progress(host, lines.append, lambda: now[0])
        )
        return Action().run(None, {"inventory_hostname": "ctl"}), lines, sent

    return run


def test_it_asks_until_the_machines_are_gone(call: Any) -> None:
    result, lines, sent = call(left(TWO), left({"gpu-1": "2d8b"}), left({}))
    assert (result.get("failed"), result["changed"], result["machines"]) == (None, True, {})
    assert sent == [COMMAND] * 3
    assert lines == ["ctl: 2 machines left, 1 h to the deadline", "ctl: 1 machine left, 1 h to the deadline"]


def test_it_fails_at_the_deadline_and_names_what_is_left(call: Any) -> None:
    result, lines, _sent = call(left(TWO), timeout=120)
    assert (result["failed"], result["machines"]) == (True, TWO)
    assert result["msg"] == "still there: gpu-0, gpu-1."
    assert lines == ["ctl: 2 machines left, 2 min to the deadline", "ctl: 2 machines left, 1 min to the deadline"]


def test_a_controller_that_is_away_for_a_while_is_no_reason_to_give_up(call: Any) -> None:
    refused = {"rc": 3, "stderr": "hpcnode elastic: the daemon has not run yet"}
    result, lines, _sent = call(AnsibleConnectionFailure("timed out"), refused, left({}))
    assert not result.get("failed")
    assert lines[0].startswith("ctl: no answer (timed out), ")
    assert lines[1].startswith("ctl: no answer (hpcnode elastic: the daemon has not run yet), ")


def test_at_the_deadline_it_says_why_there_was_no_answer(call: Any) -> None:
    result, _lines, _sent = call({"rc": 3, "stderr": "hpcnode elastic: no elastic.json"}, timeout=10)
    assert (result["failed"], result["msg"]) == (True, "hpcnode elastic: no elastic.json")


def test_check_mode_sends_nothing(call: Any) -> None:
    result, _lines, sent = call(left(TWO), check=True)
    assert (result["changed"], sent) == (True, [])
