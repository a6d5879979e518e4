# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Debian the simulated nodes and the emulated machine run."""

from __future__ import annotations

import os

VARIABLE = "HPCAI_SUITE"
"""Environment variable: the suite, one of SUITES."""
SUITES = {"trixie": "Debian 13, Slurm 24.11.5", "bookworm": "Debian 12, Slurm 22.05.8"}
"""Suites and what they bring; the first one is the default."""
OLDEST = list(SUITES)[-1]


class UnknownSuite(ValueError):
    """The environment names a suite that nothing was tested on."""


def suite() -> str:
    """The suite to use.

    :raises UnknownSuite: the environment names another one than SUITES.
    """
    chosen = os.environ.get(VARIABLE) or next(iter(SUITES))
    if chosen not in SUITES:
        known = " and ".join(f"{name} ({brings})" for name, brings in SUITES.items())
        raise UnknownSuite(f"{VARIABLE}={chosen}: the machines of the tests run {known}; unset it or name one of these")
    return chosen
