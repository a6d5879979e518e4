# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of checks: what `make check` and `make test` run, in this order. To add a check, add a line.

A step that exits with 77 could not run here; its last line of output says why, and it counts as skipped.
"""

from __future__ import annotations

import dataclasses

PYTEST = ("python", "-m", "pytest")
# What depends on the versions of ansible-core and of Azure's SDK.
VERSION_MATRIX = (*PYTEST, "tests/unit/plugins", "tests/functional/inventory")


@dataclasses.dataclass(frozen=True)
class Step:
    """One command. Its programs come from the virtual environment first, then from the system."""

    name: str
    command: tuple[str, ...]
    # Part of `make check` as well, whose steps together take less than three minutes.
    quick: bool = False
    # Steps that must have passed before this one makes sense.
    needs: tuple[str, ...] = ()
    venv: str = ".venv"
    # Its last line of output belongs into the summary.
    tells: bool = False
    # Seconds after which it counts as hung.
    limit: int = 300
    # Runs beside the steps after it, for it leaves a processor idle.
    beside: bool = False


STEPS = (
    Step("venv", ("tests/setup/venv.sh",), quick=True, tells=True),
    Step("ruff", ("ruff", "check", "."), quick=True),
    Step("ruff-format", ("ruff", "format", "--check", "."), quick=True),
    Step("mypy", ("mypy",), quick=True),
    Step("shellcheck", ("tests/setup/shellcheck.sh",), quick=True),
    Step("yamllint", ("yamllint", "--strict", "."), quick=True),
    Step("ansible-lint", ("ansible-lint", "--offline"), quick=True),
    Step("changelog", ("antsibull-changelog", "lint"), quick=True),
    Step(
        "docs", ("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--check-extra-docs-refs", "."), quick=True
    ),
    Step("licences", ("reuse", "lint", "--lines"), quick=True),
    Step("unit", (*PYTEST, "tests/unit"), quick=True),
    Step("archive", (*PYTEST, "tests/functional/test_archive.py"), quick=True),
    Step("sanity", ("python", "tests/setup/sanity.py"), quick=True, tells=True, limit=900),
    Step("host", ("tests/setup/host.sh",), limit=900),
    Step("hardware", ("tests/setup/hardware.sh",), needs=("host",), limit=3600, beside=True),
    Step("functional", (*PYTEST, "tests/functional", "-m", "not nodes"), limit=1800),
    Step("venv-oldest", ("tests/setup/venv.sh", "oldest"), tells=True),
    Step(
        "tests-oldest",
        VERSION_MATRIX,
        needs=("venv-oldest",),
        venv=".venv-oldest",
        limit=1800,
    ),
    Step("venv-newest", ("tests/setup/venv.sh", "newest"), tells=True),
    Step(
        "tests-newest",
        VERSION_MATRIX,
        needs=("venv-newest",),
        venv=".venv-newest",
        limit=1800,
    ),
    Step("docs-site", ("tests/setup/docs.sh",)),
    Step("nodes", (*PYTEST, "tests/functional", "-m", "nodes"), needs=("host",), limit=3000),
    Step("molecule", ("molecule", "test", "-s", "cluster"), needs=("host",), limit=2400),
    Step("molecule-node", ("molecule", "test", "-s", "node"), needs=("host",), limit=1200),
)
