# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action slurm_leave: how long it waits, what it shows, and what it makes of a controller that is away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.azure.plugins.action import slurm_leave
from ansible_collections.hpcai.azure.plugins.plugin_utils import _progress

ONE, TWO = {"n-1": ["4711 (alice, running)"]}, {"n-1": ["1 (a, running)"], "n-2": ["1 (a, running)", "2 (b, running)"]}


class Cluster:
    """What the module finds on each run, and a clock that only a sleep moves."""

    def __init__(self, *found: Any) -> None:
        self.found = list(found)
        self.now = 1000.0
        self.given: list[dict[str, Any]] = []
        self.lines: list[str] = []

    def result(self, busy: Any) -> dict[str, Any]:
        """The module's result."""
        if isinstance(busy, str):
            return {"failed": True, "msg": busy}
        left = max(0.0, 1000.0 + 3600 - self.now)
        first = len(self.given) == 1
        result = {"busy": busy, "unknown": [], "deadline": 9e9, "seconds_left": left, "time_is_over": left == 0}
        return {**result, "changed": first, "drained": ["n-1"] if first else [], "diff": {"before": "", "after": ""}}

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the action in a cluster."""

    def run(cluster: Cluster, wait: bool = True, check: bool = False, delegate_to: str = "") -> dict[str, Any]:
        class Action(slurm_leave.ActionModule):
            def __init__(self) -> None:
                given = {"nodes": ["n-1", "n-2"], "reason": "retire: old", "timeout": 3600, "wait": wait}
                self._task: Any = SimpleNamespace(args=given, check_mode=check, delegate_to=delegate_to)

            def validate_argument_spec(self, argument_spec: Any = None, *_more: Any, **_others: Any) -> Any:
                assert set(self._task.args) <= set(argument_spec)
                return None, self._task.args

            def _execute_module(self, module_args: Any = None, **_more: Any) -> Any:  # type: ignore[override]
                cluster.given.append(module_args)
                found = cluster.found.pop(0) if len(cluster.found) > 1 else cluster.found[0]
                if isinstance(found, Exception):
                    raise found
                return cluster.result(found)

        time = SimpleNamespace(monotonic=lambda: cluster.now, sleep=cluster.sleep)
        monkeypatch.setattr(slurm_leave, "time", time)
        monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
        monkeypatch.setattr(
            slurm_leave,
            "Progress",
            lambda host: _progress.Progress(host, cluster.lines.append, lambda: cluster.now),
        )
        return Action().run(None, {"inventory_hostname": "ctl"})

    return run


def test_it_waits_until_no_job_is_left(call: Any) -> None:
    cluster = Cluster(TWO, TWO, ONE, {"n-1": []}, {})
    done = call(cluster)
    assert (done["busy"], done["changed"], done["drained"]) == ({}, True, ["n-1"])
    assert cluster.lines == [
        "ctl: 2 jobs left, 1 h to the deadline",
        "ctl: 1 job left, 1 h to the deadline",
        "ctl: a job is ending on 1 node, 1 h to the deadline",
    ]
    assert cluster.now == 1000 + 4 * slurm_leave.EVERY_S


def test_each_run_of_the_module_has_the_first_ones_deadline(call: Any) -> None:
    cluster = Cluster(ONE, ONE, {})
    call(cluster)
    first, *others = cluster.given
    assert first == {"nodes": ["n-1", "n-2"], "reason": "retire: old", "timeout": 3600}
    assert others == [{**first, "deadline": 9e9}] * 2


def test_it_says_once_a_minute_how_much_time_is_left(call: Any) -> None:
    cluster = Cluster(ONE)
    done = call(cluster)
    assert (done["time_is_over"], list(done["busy"])) == (True, ["n-1"])
    assert cluster.lines[0] == "ctl: 1 job left, 1 h to the deadline"
    assert "ctl: 1 job left, 41 min to the deadline" in cluster.lines
    assert len(cluster.lines) == 60
    assert cluster.now == 1000 + 3600


def test_a_controller_that_is_away_for_a_while_ends_nothing(call: Any) -> None:
    away = AnsibleConnectionFailure("no route to host")
    cluster = Cluster(ONE, "Unable to contact slurm controller\nmore", away, {})
    assert call(cluster)["busy"] == {}
    assert cluster.lines[1:] == [
        "ctl: no answer (Unable to contact slurm controller), 1 h to the deadline",
        "ctl: no answer (no route to host), 1 h to the deadline",
    ]


def test_a_controller_that_stays_away_is_an_error_after_the_deadline(call: Any) -> None:
    cluster = Cluster(ONE, "Unable to contact")
    done = call(cluster)
    assert (done["failed"], done["msg"], done["changed"], cluster.now) == (True, "Unable to contact", True, 4600)
    cluster = Cluster(ONE, AnsibleConnectionFailure("no route"))
    with pytest.raises(AnsibleConnectionFailure):
        call(cluster)
    assert cluster.now == 4600


@pytest.mark.parametrize(
    ("options", "found"),
    [({"wait": False}, ONE), ({"check": True}, ONE), ({}, {}), ({}, "Unable to contact slurm controller")],
)
def test_it_does_not_wait_without_a_reason(call: Any, options: dict[str, bool], found: Any) -> None:
    cluster = Cluster(found)
    done = call(cluster, **options)
    assert (len(cluster.given), cluster.lines, cluster.now) == (1, [], 1000)
    assert done.get("busy", found) == found


def test_a_delegated_task_names_the_host_that_it_runs_on(call: Any) -> None:
    cluster = Cluster(ONE, {})
    call(cluster, delegate_to="ctl-2")
    assert cluster.lines[0].startswith("ctl-2: 1 job left")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "2 min"),
        (2460, "41 min"),
        (3600, "1 h"),
        (3601, "1 h 1 min"),
    ],
)
def test_a_time_is_in_minutes_if_it_is_more_than_one(seconds: float, words: str) -> None:
    assert _progress.in_words(seconds) == words
