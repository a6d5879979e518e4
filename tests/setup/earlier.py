# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps that have passed on exactly this tree, so that an interrupted or failed run of hours can be continued."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Mapping
from typing import Any


def tree_of(repository: pathlib.Path) -> str | None:
    """Return git's id of all files of the last commit; None without a commit, or if a file differs or is not in it."""

    def git(*words: str) -> str | None:
        done = subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=False)
        return None if done.returncode else done.stdout.strip()

    return git("rev-parse", "HEAD^{tree}") if git("status", "--porcelain") == "" else None


class Earlier:
    """The passed steps of earlier runs, in a file.

    :ivar tree: the tree that is tested; None if it is no commit's. Then nothing is read or written.
    """

    def __init__(self, repository: pathlib.Path, file: pathlib.Path) -> None:
        self._repository, self._file = repository, file
        self.tree = tree_of(repository)

    def passed(self) -> dict[str, dict[str, Any]]:
        """Return what was kept of each step that has passed on this tree, by the step's name."""
        try:
            held = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        steps = held["steps"] if self.tree and held.get("tree") == self.tree else {}
        return dict(steps)

    def keep(self, name: str, outcome: Mapping[str, Any]) -> None:
        """Add a step that has passed, unless a file has changed meanwhile. The steps of other trees are forgotten."""
        if self.tree and tree_of(self._repository) == self.tree:
            kept = {"tree": self.tree, "steps": {**self.passed(), name: outcome}}
            self._file.parent.mkdir(exist_ok=True)
            self._file.write_text(json.dumps(kept) + "\n", encoding="utf-8")
