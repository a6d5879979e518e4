# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The SHA-256 of each file of a data set, as ``sha256sum`` writes them: made once, verified whenever it is staged.

Azure keeps only an MD5 of a blob, which its writer may omit or change together with the content. The sums are kept
apart from the data, so they also detect a data set that somebody replaced.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...machine.config import ConfigError
from ..azcopy.location import trouble_with
from .manifest import Staged

_LINE = re.compile(r"([0-9a-f]{64}) [ *](?:\./)?(.+)")
_LONGEST = 1 << 30
"""Bytes of a file of sums: more than 5 million lines."""


@dataclass(frozen=True)
class Sums:
    """The sums of a data set.

    :ivar files: SHA-256 by path below the data set's folder; decompressed files without ``.gz``.
    """

    files: Mapping[str, str]

    @property
    def text(self) -> str:
        """One line per file, sorted by path: what ``sha256sum`` writes and reads."""
        return "".join(f"{self.files[path]}  {path}\n" for path in sorted(self.files))

    @property
    def digest(self) -> str:
        """The SHA-256 of the text, which identifies the data set."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def differences(self, staged: Iterable[Staged]) -> list[str]:
        """Return what differs from files that were staged, one message per file; nothing is read."""
        found = {one.path: one.sha256 for one in staged}
        wrong = [f"{path} is not in the sums" for path in found if path not in self.files]
        wrong += [
            f"{path} was staged with another SHA-256 than in the sums"
            for path, sha in found.items()
            if self.files.get(path, sha) != sha
        ]
        return sorted([*wrong, *(f"{path} is in the sums, but is not staged" for path in self.files.keys() - found)])


def read_sums(path: str) -> Sums:
    """Return the sums in a file.

    :raises ConfigError: a line is no sum, or names a file twice; the message has its number.
    :raises OSError: it cannot be read.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read(_LONGEST)
    files: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line)
        trouble = trouble_with(found[2]) if found else "is no line of sha256sum"
        if not found or trouble:
            raise ConfigError(f"{path}: line {number} {trouble}: expected a SHA-256, two spaces and a path.")
        if found[2] in files:
            raise ConfigError(f"{path}: line {number} names {found[2]!r} again: create the sums again.")
        files[found[2]] = found[1]
    if not files:
        raise ConfigError(f"{path} has no sums.")
    return Sums(files)
