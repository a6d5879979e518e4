# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode health prolog: whether a job may start on the node."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import health, main
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report import ask as ask_module
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.report.ask import Permission


class Performed:
    """A run of the tier prolog."""

    def __init__(self, blocks: bool) -> None:
        self.run = self
        self.blocks_job = blocks


def play(monkeypatch: pytest.MonkeyPatch, blocks: bool, given: Permission | Exception) -> None:
    """Have the checks and the arbiter say this."""

    def answer(*_given: object) -> Permission:
        if isinstance(given, Exception):
            raise given
        return given

    monkeypatch.setattr(health, "perform", lambda *_given: Performed(blocks))
    monkeypatch.setattr(ask_module, "ask", answer)


def test_a_prolog_fails_only_with_the_arbiters_permission(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, True, Permission(True, "gpu_count: 7 of 8", "hpcai: health: gpu_count: 7 of 8"))
    assert main.main(["health", "prolog"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "gpu_count: 7 of 8"
    play(monkeypatch, True, Permission(False, "gpu_count: 7 of 8", "the limit is reached"))
    assert main.main(["health", "prolog"]) == 0
    assert "the job starts although gpu_count: 7 of 8: the limit is reached" in capsys.readouterr().out


def test_a_prolog_asks_nobody_where_nothing_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, False, Permission(True, "gpu_count: 7 of 8", "asked"))
    assert main.main(["health", "prolog"]) == 0
    assert capsys.readouterr().out == "the node is fit for the job\n"


def test_a_prolog_does_not_fail_for_a_defect_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, True, RuntimeError("a defect"))
    assert main.main(["health", "prolog"]) == 0
    assert "the checks could not be run, so the job starts: a defect" in capsys.readouterr().out
