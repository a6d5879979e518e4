# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode boot: lines for the journal, exit statuses for systemd, and one place that tells what blocks."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import catalog, engine
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import status as boot_status
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Outcome, Step
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import boot, main
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, SKIP, UNKNOWN, WARN

STATUS = {PASS: 0, WARN: 0, SKIP: 0, FAIL: 1, UNKNOWN: 2}


class Boot:
    """hpcnode boot with steps of the test's own, on this machine but for its records."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: pathlib.Path
    ) -> None:
        self.monkeypatch, self.capsys, self.folder = monkeypatch, capsys, folder
        self.problems: tuple[str, ...] = ()
        self.checked: list[bool] = []

    def have(self, *steps: tuple[str, str, bool]) -> None:
        """Have these steps: name, verdict, whether it blocks."""

        def perform(step: Step, _root: Any, _run: Any, check: bool) -> engine.StepRun:
            self.checked.append(check)
            return engine.StepRun(step, step.perform(None), 0.25, self.problems)  # type: ignore[arg-type]

        made = [
            Step(
                name,
                f"Does {name}",
                blocking,
                5,
                lambda _context, verdict=verdict, name=name: Outcome(  # type: ignore[misc]
                    verdict, f"{name} is so.", "mend it" if STATUS[verdict] else "", ("made it",)
                ),
            )
            for name, verdict, blocking in steps
        ]
        self.monkeypatch.setattr(catalog, "NAMES", tuple(step.name for step in made))
        self.monkeypatch.setattr(catalog, "load", {step.name: step for step in made}.__getitem__)
        self.monkeypatch.setattr(boot, "perform", perform)

    def __call__(self, words: str) -> tuple[int, str, str]:
        """Call it; exit status and both outputs."""
        status = main.main(["boot", *words.split()])
        output = self.capsys.readouterr()
        return status, output.out, output.err


@pytest.fixture
def hpcnode(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> Boot:
    """The command."""
    return Boot(monkeypatch, capsys, tmp_path)


@pytest.mark.parametrize("verdict", STATUS)
@pytest.mark.parametrize("blocking", [True, False])
def test_a_unit_fails_if_and_only_if_its_step_did(hpcnode: Boot, verdict: str, blocking: bool) -> None:
    hpcnode.have(("demo", verdict, blocking))
    assert hpcnode("run demo")[0] == STATUS[verdict]


@pytest.mark.parametrize(
    ("blocking", "other", "status"),
    [(PASS, FAIL, 0), (WARN, UNKNOWN, 0), (FAIL, PASS, 1), (UNKNOWN, FAIL, 2), (UNKNOWN, PASS, 2), (FAIL, UNKNOWN, 1)],
)
def test_without_names_only_blocking_steps_make_the_status(
    hpcnode: Boot, blocking: str, other: str, status: int
) -> None:
    hpcnode.have(("first", blocking, True), ("second", other, False))
    assert hpcnode("run")[0] == status


def test_without_names_all_but_join_run_in_their_order(hpcnode: Boot) -> None:
    hpcnode.have(("one", FAIL, True), ("two", PASS, True), ("join", PASS, True))
    document = json.loads(hpcnode("run --json")[1])
    assert [step["name"] for step in document["steps"]] == ["one", "two"]
    assert (document["blocking"], document["check"]) == (["one"], False)


def test_one_line_says_what_is_the_case_and_what_to_do(hpcnode: Boot) -> None:
    hpcnode.have(("demo", FAIL, True))
    output = hpcnode("run demo")[1]
    assert output == "demo: changed: made it\ndemo: fail (0.2 s): demo is so. To do: mend it.\n"


def test_errors_are_errors_in_the_journal_too(hpcnode: Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    hpcnode.have(("a", FAIL, True), ("b", WARN, True), ("c", PASS, True))
    monkeypatch.setattr(boot.command, "is_journal", lambda: True)
    lines = [line for line in hpcnode("run")[1].splitlines() if "changed" not in line]
    assert [line[:4] for line in lines] == ["<3>a", "<4>b", "c: p"]


def test_only_the_journal_gets_levels(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    with open(tmp_path / "journal", "w", encoding="utf-8") as file:
        here = os.fstat(file.fileno())
        monkeypatch.setattr("sys.stdout", file)
        monkeypatch.delenv("JOURNAL_STREAM", raising=False)
        assert not boot.command.is_journal()
        monkeypatch.setenv("JOURNAL_STREAM", f"{here.st_dev}:{here.st_ino}")
        assert boot.command.is_journal()
        monkeypatch.setenv("JOURNAL_STREAM", f"{here.st_dev}:{here.st_ino + 1}")
        assert not boot.command.is_journal()


def test_a_check_says_what_would_be_changed(hpcnode: Boot) -> None:
    hpcnode.have(("demo", PASS, True))
    assert "demo: would be changed: made it\n" in hpcnode("run --check")[1]
    assert hpcnode.checked == [True]


def test_what_could_not_be_recorded_is_said_on_stderr(hpcnode: Boot) -> None:
    hpcnode.have(("demo", PASS, True))
    hpcnode.problems = ("cannot write /run/hpcai/boot/demo.json (No space left on device)",)
    status, _output, complaint = hpcnode("run demo")
    assert status == 0
    assert complaint == "hpcnode boot: demo: cannot write /run/hpcai/boot/demo.json (No space left on device)\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("run dema", "there is no step dema: the steps are demo"),
        ("status demo", "unrecognized arguments: demo"),
        ("status --check", "--check goes with run, not with status"),
        ("run --root /tmp", "works on the running machine only"),
        ("start", "there is no action start: did you mean status?"),
    ],
)
def test_wrong_usage_is_refused(hpcnode: Boot, words: str, complaint: str) -> None:
    hpcnode.have(("demo", PASS, True))
    status, _output, message = hpcnode(words)
    assert (status, hpcnode.checked) == (3, [])
    assert complaint in message


def line(name: str, verdict: str, blocking: bool = True, **facts: Any) -> boot_status.StepStatus:
    """What is the case with a step."""
    step = Step(name, f"Does {name}", blocking, 5, lambda _context: Outcome(PASS, ""))
    action = "mend it" if verdict in (FAIL, UNKNOWN) else ""
    return boot_status.StepStatus(step, verdict, f"{name} is so", action, **facts)


@pytest.mark.parametrize(
    ("lines", "status", "expected"),
    [
        ([line("a", PASS, seconds=1.25)], 0, "Nothing keeps slurmd from starting; it is active."),
        ([line("a", FAIL)], 1, "slurmd does not start because of a: a is so. To do: mend it.\nThen run"),
        ([line("a", UNKNOWN), line("b", boot_status.RUNNING)], 1, "slurmd does not start because of a: a is so."),
        ([line("a", PASS), line("b", boot_status.RUNNING)], 2, "slurmd waits for: b."),
        ([line("a", boot_status.NOT_RUN), line("b", boot_status.WAITING)], 2, "slurmd waits for: a, b."),
        ([line("a", PASS), line("b", FAIL, False)], 0, "Jobs may run, but b: b is so. To do: mend it."),
        ([line("a", WARN)], 0, "Jobs may run, but a: a is so.\nNothing keeps slurmd from starting"),
    ],
)
def test_status_tells_what_blocks_and_what_to_do(
    hpcnode: Boot, monkeypatch: pytest.MonkeyPatch, lines: list[boot_status.StepStatus], status: int, expected: str
) -> None:
    monkeypatch.setattr(boot_status, "read_status", lambda *_given: boot_status.Status(tuple(lines), "active"))
    code, output, _complaint = hpcnode("status")
    assert (code, expected in output) == (status, True), output
    for each in lines:
        assert f"{each.step.name}  " in output
    kept = json.loads(hpcnode("status --json")[1])
    assert [step["verdict"] for step in kept["steps"]] == [each.verdict for each in lines]
    assert kept["blocking"] == [each.step.name for each in lines if each.blocks]
    assert kept["status"] == status


@pytest.mark.parametrize(
    ("slurmd", "expected"),
    [
        ("active", "; it is active.\n"),
        ("inactive", "; it is inactive, and 'systemctl start slurmd' starts it.\n"),
        ("failed", "'systemctl start slurmd' starts it.\n"),
        (None, "starting.\n"),
    ],
)
def test_status_says_how_to_go_on_where_all_was_mended_by_hand(
    hpcnode: Boot, monkeypatch: pytest.MonkeyPatch, slurmd: str | None, expected: str
) -> None:
    monkeypatch.setattr(boot_status, "read_status", lambda *_given: boot_status.Status((line("a", PASS),), slurmd))
    assert hpcnode("status")[1].endswith(expected)


def test_status_of_another_machines_files(hpcnode: Boot, tmp_path: pathlib.Path) -> None:
    code, output, _complaint = hpcnode(f"status --root {tmp_path}")
    assert code == 2
    assert all(name in output for name in catalog.NAMES)
