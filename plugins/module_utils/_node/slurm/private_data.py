# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether users may see each other's jobs, by PrivateData of slurm.conf."""

from __future__ import annotations

import re

SHOW_CONFIG = ("scontrol", "show", "config")
_PRIVATE_DATA = re.compile(r"^PrivateData\s*=\s*(\S+)", re.MULTILINE)
_HIDING = {"jobs", "usage", "users", "all"}


def hides_users(shown: str | None) -> bool:
    """Return whether the names of users must not be shown to other users. Pure.

    :param shown: output of SHOW_CONFIG; None if slurmctld did not answer. Without an answer, names are hidden.
    """
    found = _PRIVATE_DATA.search(shown or "")
    return found is None or not _HIDING.isdisjoint(found[1].lower().split(","))
