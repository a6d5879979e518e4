# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode arbiter."""

from __future__ import annotations

import json
import pathlib
import time
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import health, service
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import Answer


def call(*words: str) -> int:
    """Run hpcnode arbiter."""
    return frame.main(["arbiter", *words])


def controller(tmp_path: pathlib.Path, fields: dict[str, Any] | None = None) -> str:
    """A controller with settings, and what its last look came to."""
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/health_arbiter.json").write_text('{"schema": 1}', encoding="utf-8")
    if fields is not None:
        (tmp_path / "run/hpcai/health").mkdir(parents=True)
        document = {"schema": 1, "time": int(time.time()), "nodes": 3, "allowed": 1, "max_out": "10%", "out": []}
        document |= {"refused": {}, "replace": [], "alerts": [], "actions": [], **fields}
        (tmp_path / "run/hpcai/health/arbiter.json").write_text(json.dumps(document), encoding="utf-8")
    return str(tmp_path)


def test_where_no_arbiter_runs_it_cannot_tell(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--root", str(tmp_path)) == 2
    assert "no arbiter runs here; the role hpcai.azure.health_checks sets one up" in capsys.readouterr().err
    assert call("--root", controller(tmp_path)) == 2
    assert "the arbiter has not run yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 0),
        ({"out": ["compute-1"]}, 0),
        ({"alerts": [{"kind": "stale", "node": "compute-1", "words": "old"}]}, 2),
        ({"alerts": [{"kind": "cap", "node": "", "words": "too many"}]}, 1),
        (
            {"alerts": [{"kind": "held", "node": "a", "words": "often"}, {"kind": "stale", "node": "b", "words": "x"}]},
            1,
        ),
        ({"actions": [{"kind": "drain", "node": "a", "reason": "x", "problem": "refused"}]}, 1),
        ({"time": int(time.time()) - 3600}, 2),
    ],
)
def test_its_status_tells_whether_somebody_has_to_do_something(
    tmp_path: pathlib.Path, fields: dict[str, Any], status: int
) -> None:
    assert call("--root", controller(tmp_path, fields)) == status


def test_it_lists_what_is_to_be_replaced(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    marked = {"node": "compute-1", "vm_id": "vm-1", "host": "h", "reason": "hpcai: health: replace: gpu_count: x"}
    assert call("--json", "--root", controller(tmp_path, {"replace": [marked]})) == 0
    assert json.loads(capsys.readouterr().out)["replace"] == [marked]


@pytest.mark.parametrize("words", [("status", "--check"), ("look", "--within", "3"), ("tell", "--root", "/usr")])
def test_arguments_that_make_no_sense_are_refused(words: tuple[str, ...]) -> None:
    assert call(*words) == 3


@pytest.mark.parametrize(("words", "runs"), [(("tell",), "report"), (("prolog", "--within", "7"), "prolog")])
def test_the_names_of_before_do_what_health_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], runs: str
) -> None:
    """A node that was set up by the release before calls them until the next site.yml."""
    given: list[object] = []

    def answer(_root: object, *more: object) -> Answer:
        given.extend(more)
        return Answer(1, "as health says")

    monkeypatch.setattr(health, runs, answer)
    assert call(*words) == 1
    assert (capsys.readouterr().out, given) == ("as health says\n", [7.0] if runs == "prolog" else [])
    assert call("--help") == 0
    page = capsys.readouterr().out
    assert all(f"\n    {name} " in page for name in ("status", "look", "serve"))
    assert "tell" not in page
    assert "\n    prolog " not in page


def test_there_is_one_arbiter(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
    from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed

    root = Root(str(tmp_path))
    with (
        service.alone(root, "/run/x.lock", "arbiter", "hpcai-health-arbiter"),
        pytest.raises(CommandFailed, match="Another arbiter is running"),
    ):
        service.alone(root, "/run/x.lock", "arbiter", "hpcai-health-arbiter").__enter__()
