# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A breakage counts as detected only if each of its tests fails with its own assertion."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from mutation import breaking
from mutation.breakages import Breakage

SOURCE = "LIMIT = 80\n\n\ndef is_hot(celsius):\n    return celsius > LIMIT\n"
TESTS = """
import pytest

import demo


def test_is_hot():
    assert demo.is_hot(81)


@pytest.mark.parametrize("celsius", [0, 80])
def test_is_cold(celsius):
    assert not demo.is_hot(celsius)


def test_is_hot_somewhere():
    next(number for number in range(100) if demo.is_hot(number))


def test_refuses_words():
    with pytest.raises(TypeError):
        demo.is_hot("warm")


@pytest.fixture
def limit():
    assert demo.LIMIT == 80
    return demo.LIMIT


def test_of_a_fixture(limit):
    assert limit


@pytest.mark.skip(reason="no thermometer")
def test_skipped():
    assert demo.is_hot(81)
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a repository with one source file, its tests and changes that are not committed."""
    repository = tmp_path / "repository"
    repository.mkdir()
    files = {"demo.py": "LIMIT = 0\n", "test_demo.py": TESTS, "pytest.ini": "[pytest]\npythonpath = .\n", "old.txt": ""}
    for name, text in files.items():
        (repository / name).write_text(text, encoding="utf-8")

    def git(*words: str) -> None:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", *identity, *words], cwd=repository, check=True, capture_output=True)

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message=x")
    (repository / "demo.py").write_text(SOURCE, encoding="utf-8")
    (repository / "new").mkdir()
    (repository / "new/file.txt").write_text("x", encoding="utf-8")
    (repository / "old.txt").unlink()
    made = breaking.clone_of(repository, tmp_path / "clone")
    assert (made / "new/file.txt").read_text(encoding="utf-8") == "x"
    assert not (made / "old.txt").exists()
    return made


def broken(*tests: str, before: str = "celsius > LIMIT", after: str = "False") -> Breakage:
    return Breakage("nothing is hot", "demo.py", before, after, tuple(f"test_demo.py::{name}" for name in tests))


def test_a_failed_assertion_detects_and_the_file_is_restored(clone: Path) -> None:
    assert breaking.try_one(clone, broken("test_is_hot")) == []
    assert (clone / "demo.py").read_text(encoding="utf-8") == SOURCE
    # One case of a parametrized test is enough, and so is an exception that is not raised.
    assert breaking.try_one(clone, broken("test_is_cold", after="celsius >= LIMIT")) == []
    assert breaking.try_one(clone, broken("test_refuses_words")) == []
    assert breaking.try_one(clone, broken("test_is_cold[80]", after="celsius >= LIMIT")) == []


def test_a_test_that_passes_does_not_detect(clone: Path) -> None:
    problems = breaking.try_one(clone, broken("test_is_hot", "test_is_cold"))
    assert problems == ["test_demo.py::test_is_cold passes"]
    assert breaking.try_one(clone, broken("test_is_cold[0]", after="celsius >= LIMIT")) == [
        "test_demo.py::test_is_cold[0] passes"
    ]


@pytest.mark.parametrize(
    ("breakage", "words"),
    [
        (broken("test_is_hot_somewhere"), "no assertion of its own: StopIteration"),
        (broken("test_is_hot", before="def is_hot", after="def is_warm"), "no assertion of its own: AttributeError"),
        (broken("test_of_a_fixture", before="LIMIT = 80", after="LIMIT = 81"), 'its own: failed on setup with "assert'),
    ],
)
def test_another_error_does_not_detect(clone: Path, breakage: Breakage, words: str) -> None:
    (problem,) = breaking.try_one(clone, breakage)
    assert words in problem


def test_a_breakage_that_prevents_the_import_is_not_detected(clone: Path) -> None:
    problems = breaking.try_one(clone, broken("test_is_hot", before="LIMIT = 80", after="LIMIT = = 80"))
    assert problems == ["pytest ended with 4: SyntaxError: invalid syntax"]
    assert (clone / "demo.py").read_text(encoding="utf-8") == SOURCE


@pytest.mark.parametrize(("before", "count"), [("LIMIT", 2), ("celsius < LIMIT", 0)])
def test_a_text_that_does_not_occur_exactly_once_is_an_error(clone: Path, before: str, count: int) -> None:
    with pytest.raises(breaking.CannotTry, match=f"occurs {count} times in demo.py"):
        breaking.try_one(clone, broken("test_is_hot", before=before))


def test_all_are_tried_and_those_that_no_test_detects_are_returned(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = [broken("test_is_hot"), broken("test_is_cold"), broken("test_skipped")]
    assert breaking.try_all(clone, listed) == ["nothing is hot"]
    results = [line.partition("(demo.py): ")[2].rpartition(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert results == [
        "detected",
        "NOT DETECTED: test_demo.py::test_is_cold passes",
        "not tried, because tests are skipped here: test_demo.py::test_skipped",
    ]


def test_a_test_that_fails_without_a_breakage_is_an_error(clone: Path) -> None:
    (clone / "demo.py").write_text(SOURCE.replace("80", "90"), encoding="utf-8")
    with pytest.raises(breaking.CannotTry, match=r"do not pass without a breakage: test_demo\.py::test_is_hot$"):
        breaking.try_all(clone, [broken("test_is_hot", "test_refuses_words")])


def test_the_command_of_a_breakage_on_nodes_runs_its_tests() -> None:
    assert breaking.command_of(broken("test_is_hot")) == ".venv/bin/python -m pytest test_demo.py::test_is_hot"
    molecule = Breakage("x", "x", "x", "y", ("molecule/cluster/tests/test_cluster.py::test_x",))
    assert breaking.command_of(molecule) == "make test STEPS=molecule"


@pytest.mark.parametrize(
    ("word", "status", "line"),
    [
        ("no-such-word", 2, "no breakage has no-such-word in its name or file"),
        # Only a cluster can try this one, so no test runs.
        ("the library of PMIx", 0, "needs nodes, not tried: Debian's nodes lack the library of PMIx "),
    ],
)
def test_no_test_runs_without_a_breakage_that_it_can_detect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, status: int, line: str
) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("pytest would run")

    monkeypatch.setattr(breaking, "outcomes_of", refuse)
    assert breaking.main([word]) == status
    assert capsys.readouterr().out.startswith(line)
