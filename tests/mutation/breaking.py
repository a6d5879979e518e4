# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Break one thing at a time in a clone, as the tables list it, and check that its tests then fail.

Each named test must fail with an assertion of its own: a test that ends with another error would also fail if somebody
only renamed a function. Breakages that need nodes are printed with the command that runs their tests.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from memory import temporary_folder
from mutation.azure_breakages import AZURE_BREAKAGES
from mutation.breakages import BREAKAGES, Breakage
from mutation.node_breakages import MOLECULE, NODE_BREAKAGES
from mutation.tree_breakages import TREE_BREAKAGES
from run_checks import environment
from steps import Step

REPOSITORY = Path(__file__).resolve().parents[2]
PASSED, SKIPPED = "passed", "skipped"
"""Outcomes of a test case. Another outcome is the message of the failure."""
OWN_ASSERTION = re.compile(r"AssertionError\b|assert |Failed: (?!Timeout)")
"""How pytest's message begins if an assertion, pytest.raises or pytest.fail failed. Timeout is of pytest-timeout."""
LONGEST_MESSAGE = 200
WITHOUT_NODES = (*BREAKAGES, *AZURE_BREAKAGES, *TREE_BREAKAGES)

Outcomes = Mapping[str, Sequence[str]]
"""The outcomes of the cases of each test."""


class CannotTry(Exception):
    """The tests fail without a breakage, or a breakage does not fit the tree. The message has the details."""


def clone_of(repository: Path, folder: Path) -> Path:
    """Clone a repository with its uncommitted changes."""
    subprocess.run(["git", "clone", "--quiet", "--shared", str(repository), str(folder)], check=True)

    def changed(*options: str) -> Iterator[str]:
        command = ["git", "ls-files", "-z", "--exclude-standard", *options]
        listing = subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout
        return filter(None, listing.split("\0"))

    for name in changed("--modified", "--others"):
        if (repository / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repository / name, folder / name, follow_symlinks=False)
    for name in changed("--deleted"):
        (folder / name).unlink(missing_ok=True)
    return folder


def outcomes_of(clone: Path, tests: Collection[str]) -> Outcomes:
    """Run tests in a clone.

    :param tests: names such as ``tests/unit/test_a.py::test_b``, with or without the case of a parametrized test.
    :raises CannotTry: pytest could not collect them.
    """
    report = clone.with_name("report.xml")
    report.unlink(missing_ok=True)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *tests)
    done = subprocess.run(
        command,
        cwd=clone,
        env=environment(Step("breakages", ())),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1) or not report.exists():
        errors = re.findall(r"^E +(.+)$", done.stdout, re.MULTILINE) or done.stdout.splitlines()
        raise CannotTry(f"pytest ended with {done.returncode}: {errors[-1] if errors else 'no output'}")
    found: dict[str, list[str]] = {test: [] for test in tests}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{str(case.get('classname')).replace('.', '/')}.py::{case.get('name')}"
        for test in tests:
            if name == test or name.startswith(f"{test}["):
                found[test].append(_outcome(case))
    return found


def _outcome(case: ElementTree.Element) -> str:
    for part in case:
        if part.tag in ("failure", "error"):
            # The first line of an error of a fixture is "failed on setup with ...".
            return " ".join(str(part.get("message")).split())
        if part.tag == "skipped":
            return SKIPPED
    return PASSED


def problems_of(outcomes: Outcomes) -> list[str]:
    """Return why a breakage counts as not detected: the tests that do not fail with an assertion of their own."""
    problems = []
    for test, cases in outcomes.items():
        failed = [case for case in cases if case not in (PASSED, SKIPPED)]
        if not failed:
            problems.append(f"{test} passes")
        elif not any(OWN_ASSERTION.match(case) for case in failed):
            problems.append(f"{test} fails, but with no assertion of its own: {failed[0][:LONGEST_MESSAGE]}")
    return problems


def try_one(clone: Path, breakage: Breakage) -> list[str]:
    """Break one thing, run its tests, and restore it. Returns why it counts as not detected.

    :raises CannotTry: the text does not occur exactly once in the file.
    """
    path = clone / breakage.file
    text = path.read_text(encoding="utf-8")
    if text.count(breakage.before) != 1:
        raise CannotTry(f"{breakage.what}: the text occurs {text.count(breakage.before)} times in {breakage.file}")
    path.write_text(text.replace(breakage.before, breakage.after), encoding="utf-8")
    try:
        return problems_of(outcomes_of(clone, breakage.tests))
    except CannotTry as error:
        # For example, the broken file cannot be imported.
        return [str(error)]
    finally:
        path.write_text(text, encoding="utf-8")


def try_all(clone: Path, breakages: Iterable[Breakage]) -> list[str]:
    """Try breakages one after the other, and print each result. Returns those that were not detected.

    :raises CannotTry: a test fails without a breakage, or one of the breakages cannot be tried.
    """
    chosen = list(breakages)
    unbroken = outcomes_of(clone, list(dict.fromkeys(test for one in chosen for test in one.tests)))
    failed = [test for test, cases in unbroken.items() if not {*cases} <= {PASSED, SKIPPED} or not cases]
    if failed:
        raise CannotTry(f"these tests do not pass without a breakage: {', '.join(failed)}")
    undetected = []
    for one in chosen:
        began = time.monotonic()
        skipped = [test for test in one.tests if PASSED not in unbroken[test]]
        problems = [] if skipped else try_one(clone, one)
        verdict = f"not tried, because tests are skipped here: {', '.join(skipped)}" if skipped else "detected"
        verdict = f"NOT DETECTED: {'; '.join(problems)}" if problems else verdict
        print(f"{one.what} ({one.file}): {verdict}, {time.monotonic() - began:.0f} s", flush=True)
        undetected += [one.what] if problems else []
    return undetected


def command_of(breakage: Breakage) -> str:
    """Return the command that runs the tests of a breakage that needs nodes."""
    if all(test.startswith(MOLECULE) for test in breakage.tests):
        return "make test STEPS=molecule"
    return f".venv/bin/python -m pytest {' '.join(breakage.tests)}"


def main(only: Sequence[str]) -> int:
    """Try the breakages with one of these words in their name or file, or all."""

    def chosen(breakages: Iterable[Breakage]) -> list[Breakage]:
        return [one for one in breakages if not only or any(word in f"{one.file} {one.what}" for word in only)]

    began = time.monotonic()
    to_try, on_nodes, undetected = chosen(WITHOUT_NODES), chosen(NODE_BREAKAGES), list[str]()
    if not to_try and not on_nodes:
        print(f"no breakage has {' or '.join(only)} in its name or file")
        return 2
    try:
        # Without a test, pytest would run all tests.
        if to_try:
            with temporary_folder() as folder:
                undetected = try_all(clone_of(REPOSITORY, folder / "clone"), to_try)
    except CannotTry as error:
        print(error)
        return 2
    for one in on_nodes:
        print(f"needs nodes, not tried: {one.what} ({one.file}); break it, then {command_of(one)}")
    print(f"{len(to_try)} breakages, {len(undetected)} not detected, {time.monotonic() - began:.0f} s")
    return 1 if undetected else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
