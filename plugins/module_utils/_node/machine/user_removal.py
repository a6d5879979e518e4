# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Removing what lies below a folder that users can write to: by descriptors where root owns it, else as its owner.

As root, a removal in a user's folder would also remove what he moved there and could not remove himself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Callable

from .run import Result
from .user_folders import Base, FolderProblem, is_open

_NOBODY = 65534
_RM = ("rm", "-rf", "--one-file-system", "--")

Run = Callable[[Sequence[str]], Result]


def remove(base: Base, names: Iterable[str], run: Run) -> Result | None:
    """Remove entries of a folder that only root can write to, with all that users made below them.

    rm descends by descriptors, follows no link and stays on the file system, however deep it is.

    :return: what rm answered; None if there was nothing to remove.
    :raises FolderProblem: users can write to the folder: what they own is removed as them.
    """
    if is_open(os.fstat(base.handle)):
        raise FolderProblem(f"{base.path}: users can write there, so root removes nothing in it")
    paths = [f"{base.for_commands}/{name}" for name in names]
    return run([*_RM, *paths]) if paths else None


def remove_as_owner(path: str, uid: int, run: Run) -> str:
    """Remove a user's file or folder as this user, who can lead it only to what he could remove himself.

    :return: why it stays, in words; nothing if it is gone.
    """
    become = ("setpriv", f"--reuid={uid}", f"--regid={_NOBODY}", "--clear-groups", "--inh-caps=-all", "--no-new-privs")
    prefix = [*become, "--"] if os.geteuid() == 0 else []
    # Images have folders that their owner may not write to. find follows no links.
    run([*prefix, "find", path, "-type", "d", "!", "-perm", "-700", "-exec", "chmod", "u+rwx", "{}", "+"])
    answer = run([*prefix, *_RM, path])
    return "" if answer.rc == 0 else f"{path}: {(answer.stderr.strip().splitlines() or ['it stays'])[0]}"


def remove_empty(base: Base, paths: Iterable[str]) -> list[str]:
    """Remove those of the folders, and of their parents, in which there is nothing; return their paths."""
    parts = [path.split("/") for path in paths]
    all_paths = {"/".join(words[:depth]) for words in parts for depth in range(1, len(words) + 1)}
    # The deepest first: a parent is empty when what was in it is gone.
    return [
        path for path in sorted(all_paths, key=lambda path: (-path.count("/"), path)) if _remove_if_empty(base, path)
    ]


def _remove_if_empty(base: Base, path: str) -> bool:
    *parents, last = path.split("/")
    try:
        with contextlib.ExitStack() as entered:
            here = base
            for part in parents:
                here = entered.enter_context(here.enter(part))
            os.rmdir(last, dir_fd=here.handle)
    except OSError:
        return False
    return True
