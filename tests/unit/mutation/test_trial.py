# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mutants that no test detects are reported, and only those."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
DRIVER = """
import pathlib, sys
from mutation import trial

trial.PATIENCE_S = 1.0

def report(outcome):
    print("tried", sum(outcome.tried.values()))
    for mutant in outcome.survivors:
        print(mutant.kind, mutant.line, mutant.change)

folder = pathlib.Path.cwd()
try:
    trial.try_mutants({folder / "demo.py": [folder / "test_demo.py"]}, folder / "scratch", report)
except trial.CannotTry as error:
    print("cannot try:", error)
"""
SOURCE = """
def is_hot(celsius):
    return celsius is not None and celsius > 80
"""
COMPLETE = """
from demo import is_hot

def test_is_hot(tmp_path):
    assert is_hot(81)
    assert not is_hot(80)
    assert not is_hot(None)
"""


def reported(folder: pathlib.Path, test: str, source: str = SOURCE) -> list[str]:
    """What is reported about the mutants of a source file with this test."""
    (folder / "scratch").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "demo.py").write_text(source, encoding="utf-8")
    (folder / "test_demo.py").write_text(test, encoding="utf-8")
    path = os.pathsep.join([str(REPOSITORY / "tests"), str(folder)])
    run = subprocess.run(
        [sys.executable, "-B", "-c", DRIVER],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert (folder / "demo.py").read_text(encoding="utf-8") == source
    return [line for line in run.stdout.splitlines() if line.startswith(("tried", "inverted", "boundary", "cannot"))]


def test_a_complete_test_detects_every_mutant(tmp_path: pathlib.Path) -> None:
    assert reported(tmp_path, COMPLETE) == ["tried 4"]


def test_an_undetected_mutant_is_reported_with_its_line(tmp_path: pathlib.Path) -> None:
    without = COMPLETE.replace("    assert not is_hot(None)\n", "").replace("80", "40")
    assert reported(tmp_path, without) == [
        "tried 4",
        "boundary 3 celsius > 80  ->  celsius >= 80",
    ]


def test_a_test_without_assertions_detects_no_mutant(tmp_path: pathlib.Path) -> None:
    test = "from demo import is_hot\n\ndef test_is_hot():\n    is_hot(81)\n"
    assert reported(tmp_path, test) == [
        "tried 4",
        "inverted 3 celsius is not None and celsius > 80  ->  celsius is not None or celsius > 80",
        "inverted 3 celsius is not None  ->  celsius is None",
        "inverted 3 celsius > 80  ->  celsius <= 80",
        "boundary 3 celsius > 80  ->  celsius >= 80",
    ]


def test_a_closure_created_at_import_gets_mutants_too(tmp_path: pathlib.Path) -> None:
    source = "def above(limit):\n    def is_above(value):\n        return value > limit\n    return is_above\n\n\n"
    test = "from demo import HOT\n\ndef test_hot():\n    assert HOT(81) and not HOT(80)\n"
    assert reported(tmp_path, test, f"{source}HOT = above(80)\n") == ["tried 2"]


def test_a_mutant_that_loops_forever_counts_as_detected(tmp_path: pathlib.Path) -> None:
    source = "def first(text):\n    while text.startswith(' '):\n        text = text[1:]\n    return text\n"
    test = "from demo import first\n\ndef test_first():\n    assert first('') == ''\n    assert first(' a') == 'a'\n"
    assert reported(tmp_path, test, source) == ["tried 1"]


def test_a_test_that_fails_without_a_mutant_is_an_error(tmp_path: pathlib.Path) -> None:
    (line,) = reported(tmp_path, COMPLETE.replace("81", "79"))
    assert line.startswith("cannot try:")
    assert line.endswith("has no tests, or they fail without a mutant")


def test_a_decision_made_at_import_is_an_error(tmp_path: pathlib.Path) -> None:
    (line,) = reported(tmp_path, COMPLETE, f"{SOURCE}\nLIMIT = 80 if SOME else 81\n".replace("SOME", "is_hot"))
    assert "no function that was imported decides" in line
