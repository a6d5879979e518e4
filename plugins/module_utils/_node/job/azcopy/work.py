# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The folder of a run's logs and plans: made for it alone, removed when it ends well, kept for people when it fails.

A run that was killed removes nothing. The epilog that role blob_staging installs removes what bears its job's number
and no mark; a marked folder goes after a week.
"""

from __future__ import annotations

import contextlib
import os
import tempfile

MARK = "failed"
"""A file in a folder that is kept. The role's epilog has the same name."""


def parent_of(asked: str, preset: str) -> str:
    """Return where folders of runs are made.

    :param asked: the caller's wish; empty for none.
    :param preset: that of the settings. A machine without scratch has the settings as well, and takes the folder for
        temporary files.
    :raises ValueError: what is asked for is not there.
    """
    if asked and not os.path.isdir(asked):
        raise ValueError(f"the folder for azcopy's logs, {asked}, is not there: make it, or leave out --work.")
    usable = os.path.isdir(preset) and os.access(preset, os.W_OK | os.X_OK)
    return asked or (preset if usable else tempfile.gettempdir())


def new_folder(what: str, parent: str, shard: str = "") -> str:
    """Make a folder for a run, and return it: what runs, the job, the shard if any, and what makes it unlike others."""
    words = ["hpcai", what, os.environ.get("SLURM_JOB_ID", "none"), *([shard] if shard else []), ""]
    return tempfile.mkdtemp(prefix="-".join(words), dir=parent)


def keep(folder: str) -> None:
    """Mark it as that of a run that failed, whose logs somebody may want to read."""
    with contextlib.suppress(OSError), open(os.path.join(folder, MARK), "w", encoding="ascii"):
        pass
