# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Debian the simulated nodes and the emulated machine run."""

from __future__ import annotations

import os

VARIABLE = "HPCAI_SUITE"
"""Environment variable: the suite, one of SUITES."""
SUITES = {"trixie": "Debian 13, Slurm 24.11.5", "bookworm": "Debian 12, Slurm 22.05.8"}
"""Suites and their versions; the first one is the default."""
OLDEST = list(SUITES)[-1]


class UnknownSuite(ValueError):
    """The environment names an unknown suite."""


def suite() -> str:
    """Return the suite to use.

    :raises UnknownSuite: the environment names one that is not in SUITES.
    """
    chosen = os.environ.get(VARIABLE) or next(iter(SUITES))
    if chosen not in SUITES:
        known = " or ".join(f"{name} ({versions})" for name, versions in SUITES.items())
        raise UnknownSuite(f"{VARIABLE}={chosen} is not a known suite. Unset it, or set it to {known}.")
    return chosen
