# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Files that are written completely, and our blocks in files that others write too: before, after and the diff."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..machine.atomic import remove_file, write_file


@dataclass(frozen=True)
class FileChange:
    """One file, before and after.

    :ivar path: its path.
    :ivar before: its text; None if it does not exist. Bytes that are not UTF-8 are kept with ``surrogateescape``.
    :ivar after: the wanted text; None to remove the file.
    :ivar mode: its permissions afterwards.
    :ivar mode_before: its permissions; None if it does not exist.
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
        """Make the change in one step.

        :raises OSError: it cannot be written or removed.
        """
        if not self.changes:
            return
        if self.after is None:
            remove_file(self.path)
        else:
            write_file(self.path, self.after, self.mode)

    def as_diff(self) -> dict[str, str]:
        """Return the change in the form of Ansible's diff; empty if there is none."""
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
    """Return the change that gives the file at ``path`` the text ``after``.

    :raises OSError: it exists and cannot be read, or is a folder.
    """
    before, mode_before = read_file(path)
    return FileChange(path, before, after, mode, mode_before)


def read_file(path: str) -> tuple[str | None, int | None]:
    """Return text and permissions of a file, line endings unchanged; (None, None) if it does not exist.

    :raises OSError: it exists and cannot be read.
    """
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            return file.read().decode("utf-8", "surrogateescape"), mode
    except FileNotFoundError:
        return None, None


def apply_all(changes: Iterable[FileChange]) -> None:
    """Make all changes, in order.

    :raises OSError: one cannot be made; those before it were made.
    """
    for change in changes:
        change.apply()


def diff_of(changes: Iterable[FileChange]) -> list[dict[str, str]]:
    """Return the changes in the form of Ansible's diff."""
    return [change.as_diff() for change in changes if change.changes]


def printable(text: str) -> str:
    """Return the text with bytes that are not UTF-8 replaced, because JSON cannot contain them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# A block of our lines in a file that others write too. All bytes outside the block stay unchanged.


class BrokenBlock(ValueError):
    """The block's first or last line is missing or out of place, so it is not known where our lines end."""


def with_block(text: str, name: str, lines: Sequence[str]) -> str:
    """Return the file's text with one block of these lines at its top, and no other block of this name.

    The block is at the top because there it needs no line break before it, and because readers such as NCCL use the
    first of several lines for one variable.

    :param name: text in the block's first and last line; without an equals sign, which old versions of NCCL would read
        as a variable.
    :raises BrokenBlock: the existing block has no end or no beginning.
    """
    block = [_begin(name), *lines, _end(name)]
    return "".join(f"{line}\n" for line in block) + without_block(text, name)


def without_block(text: str, name: str) -> str:
    """Return the file's text without any block of this name.

    :raises BrokenBlock: an existing block has no end or no beginning.
    """
    return "".join(_split(text, name)[0])


def block_lines(text: str, name: str) -> list[str]:
    """Return the lines of the block of this name; empty if there is no block.

    :raises BrokenBlock: an existing block has no end or no beginning.
    """
    return [line.rstrip("\r\n") for line in _split(text, name)[1]]


def _split(text: str, name: str) -> tuple[list[str], list[str]]:
    """Return the lines outside of the block and those inside."""
    kept: list[str] = []
    inside: list[str] = []
    begun = 0
    for number, line in enumerate(_lines_of(text), start=1):
        bare = line.rstrip("\r\n")
        if bare == _begin(name):
            if begun:
                raise BrokenBlock(f"line {number} begins the block {name!r} a second time, after line {begun}.")
            begun = number
        elif bare == _end(name):
            if not begun:
                raise BrokenBlock(f"line {number} ends the block {name!r}, but no line before it begins the block.")
            begun = 0
        else:
            (inside if begun else kept).append(line)
    if begun:
        raise BrokenBlock(f"line {begun} begins the block {name!r}, but no line after it ends the block.")
    return kept, inside


def _lines_of(text: str) -> list[str]:
    # Without splitlines(), which also splits at form feeds and other characters that no reader treats as a line break.
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [line for line in text.split("\n")[-1:] if line]


def _begin(name: str) -> str:
    return f"# BEGIN {name}"


def _end(name: str) -> str:
    return f"# END {name}"
