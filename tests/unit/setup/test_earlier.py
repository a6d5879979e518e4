# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An interrupted `make test-all` is continued: only what passed on exactly the same files does not run again."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
import run_checks
from earlier import Earlier, tree_of
from steps import Step

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")


def git(repository: pathlib.Path, *words: str) -> None:
    """Run git in the repository."""
    subprocess.run([*GIT, *words], cwd=repository, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A repository with one commit, in which the steps run."""
    made = tmp_path / "repository"
    made.mkdir()
    git(made, "init", "--quiet")
    (made / "a").write_text("a")
    (made / ".gitignore").write_text(".test-logs/\n")
    git(made, "add", "a", ".gitignore")
    git(made, "commit", "--quiet", "--message", "One")
    monkeypatch.setattr(run_checks, "REPOSITORY", made)
    monkeypatch.setattr(run_checks, "LOGS", made / ".test-logs")
    return made


def steps(result: str) -> list[Step]:
    """A step that others need, one that passes, and one with this exit status."""
    return [
        Step("venv", ("true",), needs=()),
        Step("long", ("sh", "-c", "echo '=== 2 passed, 1 skipped in 3.21s ==='")),
        Step("other", ("sh", "-c", f"exit {result}")),
    ]


def earlier_of(repository: pathlib.Path) -> Earlier:
    """What is known when a run starts."""
    return Earlier(repository, repository / ".test-logs/passed.json")


def test_only_failed_steps_and_those_that_others_need_run_again(repository: pathlib.Path) -> None:
    run_checks.run_all(steps("3"), earlier=earlier_of(repository))
    again, done = run_checks.without_passed(steps("0"), earlier_of(repository))
    assert [step.name for step in again] == ["venv", "other"]
    (long,) = done
    assert (long.name, long.verdict) == ("long", "passed")
    assert long.remark == "2 passed, 1 skipped (in an earlier run)"
    assert long.seconds > 0


@pytest.mark.parametrize("change", ["edit", "new file", "commit"])
def test_after_a_change_everything_runs_again(repository: pathlib.Path, change: str) -> None:
    run_checks.run_all(steps("0"), earlier=earlier_of(repository))
    assert len(run_checks.without_passed(steps("0"), earlier_of(repository))[1]) == 2
    (repository / ("b" if change == "new file" else "a")).write_text("b")
    if change == "commit":
        git(repository, "commit", "--all", "--quiet", "--message", "Two")
    assert run_checks.without_passed(steps("0"), earlier_of(repository)) == (steps("0"), [])


def test_a_step_during_which_a_file_changed_is_not_kept(repository: pathlib.Path) -> None:
    known = earlier_of(repository)
    (repository / "a").write_text("b")
    run_checks.run_all(steps("0"), earlier=known)
    git(repository, "checkout", "--quiet", "a")
    assert run_checks.without_passed(steps("0"), earlier_of(repository))[1] == []


def test_without_a_commit_nothing_is_known(tmp_path: pathlib.Path) -> None:
    assert tree_of(tmp_path) is None
