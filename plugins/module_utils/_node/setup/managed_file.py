# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Files that a setting writes: what is there, what should be there, and the difference."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from ..machine.atomic import remove_file, write_file


@dataclass(frozen=True)
class FileChange:
    """One file, before and after.

    :ivar path: where it lies.
    :ivar before: its text; None where there is none. Bytes that are no UTF-8 are kept as ``surrogateescape`` has them.
    :ivar after: the text it should have; None if it should not be there.
    :ivar mode: its permissions afterwards.
    :ivar mode_before: its permissions; None where there is no file.
    """

    path: str
    before: str | None
    after: str | None
    mode: int = 0o644
    mode_before: int | None = None

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.before != self.after or (self.after is not None and self.mode_before not in (None, self.mode))

    def apply(self) -> None:
        """Do it, in one step.

        :raises OSError: it cannot be written or removed.
        """
        if not self.changes:
            return
        if self.after is None:
            remove_file(self.path)
        else:
            write_file(self.path, self.after, self.mode)

    def as_diff(self) -> dict[str, str]:
        """Return the change in the form of Ansible's diff; an empty one where there is none."""
        if not self.changes:
            return {}
        named = self.path
        before, after = printable(self.before or ""), printable(self.after or "")
        modes = ("absent" if self.mode_before is None else f"mode {self.mode_before:04o}"), f"mode {self.mode:04o}"
        return {
            "before_header": f"{named} ({modes[0]})",
            "after_header": f"{named} ({'absent' if self.after is None else modes[1]})",
            "before": before,
            "after": after,
        }


def change_of(path: str, after: str | None, mode: int = 0o644) -> FileChange:
    """Return the change that makes the file at ``path`` have the text ``after``.

    :raises OSError: there is something that cannot be read, such as a folder.
    """
    before, mode_before = read_file(path)
    return FileChange(path, before, after, mode, mode_before)


def read_file(path: str) -> tuple[str | None, int | None]:
    """Return text and permissions of a file, ends of lines as they are; (None, None) if it is not there.

    :raises OSError: it is there and cannot be read.
    """
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            return file.read().decode("utf-8", "surrogateescape"), mode
    except FileNotFoundError:
        return None, None


def apply_all(changes: Iterable[FileChange]) -> None:
    """Do all of them, in their order.

    :raises OSError: one cannot be done; those before it are done.
    """
    for change in changes:
        change.apply()


def diff_of(changes: Iterable[FileChange]) -> list[dict[str, str]]:
    """Return the changes in the form of Ansible's diff."""
    return [change.as_diff() for change in changes if change.changes]


def printable(text: str) -> str:
    """Return the text with what is no UTF-8 replaced: JSON cannot carry it."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
