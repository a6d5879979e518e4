# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prints a ledger (``hpcnode goodput --json``) in one line: goodput_line.py FILE."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def line_of(ledger: Mapping[str, Any]) -> str:
    """Return what the first work has kept, and what the time of all nodes was used for."""
    work = ledger["work"][0]
    kept = f"the job kept {work['seconds']['kept']:.0f} s, {work['ettr']:.0%} of the time since it could start"
    shares = [f"{name} {one['share']:.1%}" for name, one in ledger["buckets"].items() if one["node_seconds"]]
    return f"{kept}; {ledger['nodes']} nodes in this hour: {', '.join(shares)}"


if __name__ == "__main__":
    sys.stdout.write(f"{line_of(json.loads(Path(sys.argv[1]).read_text(encoding='utf-8')))}\n")
