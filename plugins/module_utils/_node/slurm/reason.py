# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The words of a node's reason in Slurm."""

from __future__ import annotations

LONGEST = 200
"""Characters of a reason: it has to fit a line of sinfo and of a journal."""


def as_reason(text: str, longest: int = LONGEST) -> str:
    """Return the text as Slurm's tools show it whole: one line of plain characters, not too long, without quotes."""
    plain = " ".join(text.replace('"', "'").split()).encode("ascii", "replace").decode()
    plain = "".join(letter if letter.isprintable() else "?" for letter in plain)
    return plain if len(plain) <= longest else f"{plain[: longest - 3].rstrip()}..."
