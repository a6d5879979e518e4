# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entry of ``python -m simulator``."""

from __future__ import annotations

from simulator.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
