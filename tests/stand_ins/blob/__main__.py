# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packs azcopy into an archive like its release file: ``python -m stand_ins.blob DIR``.

If azcopy cannot be installed, it prints why and removes the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stand_ins.blob.azurite import NotHere, installed
from stand_ins.blob.release import pack, remove

if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m stand_ins.blob DIR")
    try:
        print(pack(installed(), Path(sys.argv[1])))
    except NotHere as error:
        remove(Path(sys.argv[1]))
        print(error)
