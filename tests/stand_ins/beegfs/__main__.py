# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds stand-ins for BeeGFS's packages: ``python -m stand_ins.beegfs DIR``."""

from __future__ import annotations

import sys
from pathlib import Path

from stand_ins.beegfs.build import build

if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m stand_ins.beegfs DIR")
    for made in build(Path(sys.argv[1])):
        print(made)
