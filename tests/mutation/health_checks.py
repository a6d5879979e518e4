# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the tests of the health checks detect each comparison and decision that is inverted.

It prints the mutants that no test of the file detects, and exits with 1 if one of them is more than a moved boundary. A
file's tests are those of the same name. A file without tests is tried on the tests of the files that import it.
"""

from __future__ import annotations

import ast
import fnmatch
import pathlib
import sys
import time

from memory import temporary_folder
from mutation.mutants import INVERTED, KINDS
from mutation.trial import CannotTry, Outcome, try_mutants

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
NODE = "module_utils/_node/health"
HEALTH = REPOSITORY / "plugins" / NODE
TESTS = REPOSITORY / "tests/unit/plugins" / NODE
SOURCES = (
    "checks/*.py",
    "applies.py",
    "deep.py",
    "judge.py",
    "log_signs.py",
    "nccl_tests.py",
    "settings.py",
    "state.py",
)
EQUIVALENT = {
    (
        "checks/gpu_count.py",
        "set(found) <= set(self.busids)  ->  set(found) < set(self.busids)",
    ): "if all were found, none is missing either way",
    ("checks/ib_ports.py", "present <= set(expected)  ->  present < set(expected)"): "as above",
    (
        "deep.py",
        "behind > median * (MARGIN - 1)  ->  behind >= median * (MARGIN - 1)",
    ): "MARGIN - 1 is not exactly 0.05, so figures never tie; for zeros the other condition is false",
    (
        "deep.py",
        "_TO_SIGMA * behind > _SCORE * deviation  ->  _TO_SIGMA * behind >= _SCORE * deviation",
    ): "two products of different factors never tie; for zeros the other condition is false",
    (
        "checks/nccl.py",
        "largest < nccl_tests.size_in_bytes(size) * 0.99  ->  largest <= nccl_tests.size_in_bytes(size) * 0.99",
    ): "0.99 of a power of two is not a whole number",
}
"""Mutants that behave like the source, by file and change, with the reason."""


def sources() -> list[pathlib.Path]:
    """Return the files whose decisions get mutants."""
    found = [file for pattern in SOURCES for file in sorted(HEALTH.glob(pattern))]
    return [file for file in found if file.stem != "__init__"]


def tests_of(source: pathlib.Path) -> list[pathlib.Path]:
    """Return the tests of a file, or if it has none, those of the files that import it."""
    own = TESTS / source.relative_to(HEALTH).with_name(f"test_{source.name}")
    if own.exists():
        return [own]
    importers = [file for file in HEALTH.rglob("*.py") if file != source and source in _imported(file)]
    return sorted({test for file in importers for test in tests_of(file)})


def _imported(file: pathlib.Path) -> set[pathlib.Path]:
    """Return the files that a file imports with relative imports."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            found |= {folder.with_suffix(".py"), *(folder / f"{alias.name}.py" for alias in node.names)}
    return found


class _Report:
    """Prints and counts the results."""

    def __init__(self) -> None:
        self.counts = {kind: [0, 0] for kind in KINDS}
        self.not_seen = dict(EQUIVALENT)

    def add(self, outcome: Outcome) -> None:
        """Print the mutants of a file that no test detected."""
        name = str(outcome.source.relative_to(HEALTH))
        for kind in KINDS:
            self.counts[kind][0] += outcome.tried.get(kind, 0)
        print(f"{name}: {sum(outcome.tried.values())} mutants, {outcome.seconds:.1f} s")
        for mutant in outcome.survivors:
            if not self.not_seen.pop((name, mutant.change), ""):
                self.counts[mutant.kind][1] += 1
                print(f"  {mutant.kind}: {outcome.source.relative_to(REPOSITORY)}:{mutant.line}: {mutant.change}")


def main(only: list[str]) -> int:
    """Try the mutants of the files of these names, or of all."""
    began = time.monotonic()
    chosen = [file for file in sources() if not only or any(fnmatch.fnmatch(file.stem, name) for name in only)]
    report = _Report()
    try:
        with temporary_folder() as scratch:
            try_mutants({file: tests_of(file) for file in chosen}, scratch, report.add)
    except CannotTry as error:
        print(error)
        return 2
    for kind, (tried, survived) in report.counts.items():
        print(f"{kind}: {tried} mutants, {survived} that no test detects")
    print(f"{len(chosen)} files, {time.monotonic() - began:.0f} s")
    gone = [] if only else list(report.not_seen)
    for name, change in gone:
        print(f"{name}: a test detects this mutant, or it no longer exists; remove it from EQUIVALENT: {change}")
    return 1 if gone or report.counts[INVERTED][1] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
