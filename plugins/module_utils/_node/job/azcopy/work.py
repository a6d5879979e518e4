# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The folder of a run's logs and plans: made for it alone, removed when it ends well, kept for people when it fails.

A run that was killed removes nothing. The epilog that role blob_staging installs removes the folders of its job that
have no mark, and marked ones after a week: sweep.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile

MARK = "failed"
"""A file in a folder that is kept."""
NAME = re.compile(r"hpcai-(?:stage|checkpoint)-(?P<job>\d+|none)-(?:\d+-)?[a-z0-9_]{8}")
"""How new_folder names folders."""


def parent_of(asked: str, preset: str) -> str:
    """Return where folders of runs are made.

    :param asked: the caller's wish; empty for none.
    :param preset: that of the settings. A machine without scratch has the settings as well, and takes the folder for
        temporary files.
    :raises ValueError: what is asked for is not there.
    """
    if asked and not os.path.isdir(asked):
        raise ValueError(f"the folder for azcopy's logs, {asked}, is not there: make it, or leave out --work.")
    return asked or (preset if _is_usable(preset) else tempfile.gettempdir())


def _is_usable(preset: str) -> bool:
    """Whether a user may write there, and no other user has made it: its owner could replace what is in it."""
    try:
        facts = os.lstat(preset)
    except OSError:
        return False
    ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid in (0, os.geteuid())
    return ours and os.access(preset, os.W_OK | os.X_OK)


def new_folder(what: str, parent: str, shard: str = "") -> str:
    """Make a folder for a run, and return it: what runs, the job, the shard if any, and what makes it unlike others."""
    words = ["hpcai", what, os.environ.get("SLURM_JOB_ID", "none"), *([shard] if shard else []), ""]
    return tempfile.mkdtemp(prefix="-".join(words), dir=parent)


def keep(folder: str) -> None:
    """Mark it as that of a run that failed, whose logs somebody may want to read."""
    with contextlib.suppress(OSError), open(os.path.join(folder, MARK), "w", encoding="ascii"):
        pass
