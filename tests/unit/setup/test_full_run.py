# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The row of docs/evidence.md about the last full run, and the steps that `make test` omits because of it."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
from full_run import is_omitted, passed_commit
from steps import Step

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def full_run(commit: str, how: str = "", result: str = "passed, 42 steps") -> str:
    """The row of docs/evidence.md about a run of `make test-all`."""
    return f"| `make test-all` | fresh clone of {commit}, 2 CPUs{how} | x | x | 2026-11-28 | {result} | `make` |\n"


@pytest.mark.parametrize(
    ("how", "result"),
    [(", ended by hand", "passed"), ("", "Passed; 2 failures"), ("", "passed; not run: site"), ("", "1 of 2 steps")],
)
def test_a_full_run_in_which_not_every_step_passed_does_not_count(how: str, result: str) -> None:
    assert passed_commit(full_run("1234567")) == "1234567"
    assert passed_commit(full_run("1234567", how, result)) == ""


def test_a_step_is_omitted_only_if_its_files_are_unchanged(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        return subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    step = Step("simulator", ("true",), watches=("tests/simulator",))
    watched, evidence = tmp_path / "tests/simulator/model.py", tmp_path / "docs/evidence.md"
    for file in (watched, evidence):
        file.parent.mkdir(parents=True)
        file.write_text("x\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "x")
    # At first no full run is recorded, then one is.
    assert not is_omitted(step, tmp_path)
    commit = git("rev-parse", "--short=7", "HEAD")
    evidence.write_text(full_run(commit))
    assert is_omitted(step, tmp_path)
    assert commit in capsys.readouterr().out
    watched.write_text("y\n")
    assert not is_omitted(step, tmp_path)
    # A clone without that commit, and a step that watches no files.
    evidence.write_text(full_run("1234567"))
    assert not is_omitted(step, tmp_path)
    assert not is_omitted(Step("unit", ("true",)), tmp_path)


def test_docs_evidence_records_the_last_full_run() -> None:
    evidence = (REPOSITORY / "docs/evidence.md").read_text(encoding="utf-8")
    assert re.search(r"^\| `make test-all` \| [^|]*\b[0-9a-f]{7,40}\b", evidence, re.MULTILINE)
