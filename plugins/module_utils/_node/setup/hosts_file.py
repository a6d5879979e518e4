# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""/etc/hosts, in which several programs have blocks."""

from __future__ import annotations

import ipaddress

HOSTS, HOSTS_LOCK = "/etc/hosts", "/run/hpcai/hosts.lock"
"""Prologs and the daemon of elastic sets have blocks in this file; each holds the lock while it writes."""


def is_address(text: str) -> bool:
    """Return whether a text is an IP address, as this file needs it."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
