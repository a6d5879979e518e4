# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which commit counts as the previous release: the last one that has another version in galaxy.yml."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml


class NoPrevious(Exception):
    """No commit of this clone has another version. The message says what to do."""


def git(repository: Path, *words: str, check: bool = True) -> str:
    """Run git in a repository. Without ``check``, a failure gives an empty text."""
    done = subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise NoPrevious(f"git {' '.join(words)} failed in {repository}: {done.stderr.strip()}")
    return "" if done.returncode else done.stdout.strip()


def version_in(repository: Path) -> str:
    """Return the version in the galaxy.yml of a working tree."""
    return _version_of((repository / "galaxy.yml").read_text(encoding="utf-8"))


def _version_of(galaxy: str) -> str:
    return str((yaml.safe_load(galaxy) or {}).get("version") or "")


def previous_commit(repository: Path) -> str:
    """Return the last commit whose galaxy.yml has another version than the working tree.

    :raises NoPrevious: there is none.
    """
    now = version_in(repository)
    changes = git(repository, "log", "--format=%H", "--", "galaxy.yml").split()
    # A version ends with the commit before one that changes galaxy.yml.
    for commit in ("HEAD", *(f"{change}^" for change in changes)):
        version = _version_of(git(repository, "show", f"{commit}:galaxy.yml", check=False))
        if version not in ("", now):
            return git(repository, "rev-parse", commit)
    raise NoPrevious(
        f"no commit of {repository} has another version than {now} in galaxy.yml. If the clone is shallow, get its "
        "history (git fetch --unshallow), or set HPCAI_PREVIOUS to a commit or tag of the previous release."
    )
