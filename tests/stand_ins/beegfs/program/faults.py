# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures on request: a file on the node lists which part fails how. It is read each time."""

from __future__ import annotations

import os
from pathlib import Path

FILE = "/etc/beegfs/stand-in-faults"


def faults(part: str) -> dict[str, str]:
    """Return the failures requested for this part, from lines ``PART FAULT [ARGUMENT]``."""
    try:
        text = Path(os.environ.get("BEEGFS_STAND_IN_FAULTS", FILE)).read_text(encoding="utf-8")
    except OSError:
        return {}
    words = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {found[1]: " ".join(found[2:]) for found in words if len(found) > 1 and found[0] == part}
