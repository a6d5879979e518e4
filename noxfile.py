# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions for those who work with nox: `nox -l` lists them, antsibull-nox.toml says what they do.

They run some of the checks of `make check`, each in an environment of its own.
"""

from __future__ import annotations

import sys

try:
    import antsibull_nox
except ImportError:
    print("noxfile.py: antsibull-nox is missing; run `make setup`, then `.venv/bin/nox`", file=sys.stderr)
    sys.exit(1)

antsibull_nox.load_antsibull_nox_toml()
