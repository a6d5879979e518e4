# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last run of `make test-all` in which every step passed, and which steps `make test` omits since then."""

from __future__ import annotations

import pathlib
import re
import subprocess

from steps import Step

# The row of docs/evidence.md that records the last full run: claim, how, real, simulated, date, result, repeat.
FULL_RUN = re.compile(
    r"^\| `make test-all` \| (?P<how>[^|]*\b(?P<commit>[0-9a-f]{7,40})\b[^|]*)"
    r"(?:\|[^|]*){3}\| (?P<result>[Pp]assed\b[^|]*)\|",
    re.MULTILINE,
)
# Words of the row of a run in which not every step passed.
NOT_COMPLETE = re.compile(r"\b(fail|not run|ended|interrupted)", re.IGNORECASE)


def passed_commit(evidence: str) -> str:
    """The commit on which all of `make test-all` passed, or an empty text: its result must begin with "passed"."""
    row = FULL_RUN.search(evidence)
    return row["commit"] if row and not NOT_COMPLETE.search(f"{row['how']} {row['result']}") else ""


def is_omitted(step: Step, repository: pathlib.Path) -> bool:
    """Whether the files that the step watches are unchanged since the last full run that passed. If so, print that."""
    commit = passed_commit((repository / "docs/evidence.md").read_text(encoding="utf-8"))
    if not step.watches or not commit:
        return False
    # git exits with 1 if something differs, and with 128 if this clone does not contain the commit.
    command = ["git", "diff", "--quiet", commit, "--", *step.watches]
    same = subprocess.run(command, cwd=repository, stderr=subprocess.DEVNULL, check=False).returncode == 0
    if same:
        unchanged = " and ".join(step.watches)
        print(f"{step.name} is omitted: {unchanged} have not changed since the last full run ({commit}).")
    return same
