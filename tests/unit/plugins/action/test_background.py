# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions nccl_pairs and node_health_info: which tasks run in the background and show their progress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.azure.plugins.action import nccl_pairs, node_health_info
from ansible_collections.hpcai.azure.plugins.plugin_utils import _installed
from ansible_collections.hpcai.azure.plugins.plugin_utils._installed import Answer

HEALTH = {"status": 0, "verdict": "pass", "checks": [], "problems": []}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run an action on a host whose hpcnode has this code or other code. Returns how it ran, and the result."""

    def run(plugin: Any, has_hpcnode: bool = True, check_mode: bool = False, is_async: int = 0, **options: Any) -> Any:
        ways: list[Any] = []
        spec = {"tier": "periodic", "only": [], "fail_on": "never"}

        def call(_action: Any, words: list[str], _python: str) -> Answer | None:
            ways.append(words)
            return Answer(dict(HEALTH), []) if has_hpcnode else None

        class Background:
            def __init__(self, _action: Any, task_vars: dict[str, Any], name: str) -> None:
                ways.append((name, task_vars["inventory_hostname"]))

            def run(self) -> dict[str, Any]:
                return {"from": "background"}

        class Action(plugin.ActionModule):
            def __init__(self) -> None:
                self._task = SimpleNamespace(args=options, check_mode=check_mode, async_val=is_async)

            def validate_argument_spec(self, _spec: Any) -> Any:
                return None, {**spec, **options}

            def _execute_module(self, task_vars: Any = None, wrap_async: Any = False) -> Any:
                ways.append("async" if wrap_async else "module")
                return {"from": "module"}

        monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
        monkeypatch.setattr(_installed, "call", call)
        monkeypatch.setattr(plugin, "Background", Background)
        done = Action().run(None, {"inventory_hostname": "n-1"})
        return ways, done

    return run


def test_deep_health_checks_run_in_the_background(run: Any) -> None:
    assert run(node_health_info, tier="deep") == ([("health", "n-1")], {"from": "background"})


@pytest.mark.parametrize("tier", ["prolog", "periodic", "epilog", "boot"])
def test_the_short_tiers_do_not(run: Any, tier: str) -> None:
    ways, done = run(node_health_info, tier=tier)
    assert (ways, done["health"]) == ([["health", "run", tier]], HEALTH)
    ways, done = run(node_health_info, has_hpcnode=False, tier=tier)
    assert (ways, done) == ([["health", "run", tier], "module"], {"from": "module"})


def test_deep_health_checks_in_check_mode_do_not(run: Any) -> None:
    ways, done = run(node_health_info, check_mode=True, tier="deep", only=["gemm"])
    assert (ways, done["health"]) == ([["health", "run", "deep", "--only=gemm"]], HEALTH)
    ways, _done = run(node_health_info, has_hpcnode=False, check_mode=True, tier="deep")
    assert ways == [["health", "run", "deep"], "module"]


def test_deep_health_checks_of_an_asynchronous_task_do_not(run: Any) -> None:
    # A task with async is in the background already.
    assert run(node_health_info, is_async=60, tier="deep") == (["async"], {"from": "module"})


def test_pairs_of_nodes_run_in_the_background(run: Any) -> None:
    assert run(nccl_pairs) == ([("nccl-pairs", "n-1")], {"from": "background"})


@pytest.mark.parametrize(("given", "way"), [({"check_mode": True}, "module"), ({"is_async": 60}, "async")])
def test_pairs_of_nodes_in_check_mode_or_async_do_not(run: Any, given: dict[str, Any], way: str) -> None:
    assert run(nccl_pairs, **given) == ([way], {"from": "module"})
