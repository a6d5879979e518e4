# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a task registered on each host, out of hostvars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def registered(hostvars: Mapping[str, Any], host: str, variable: str) -> Any:
    """Return what a task registered for a host, as plain values; None where that is nothing, or nobody knows the host.

    What hostvars gives has been through Ansible's templating. A result has nothing for that to find, and with some
    hundred values a node the search took ten times as long as the whole report.
    """
    if host not in hostvars:
        return None
    # A test may give a plain mapping.
    raw_get = getattr(hostvars, "raw_get", hostvars.__getitem__)
    value = raw_get(host).get(variable)
    if isinstance(value, str):
        # The name stands for a template, which may lead to a result.
        value = hostvars[host].get(variable)
    return plain(value)


def plain(value: Any) -> Any:
    """Return the value without what Ansible hangs on it, and without its laziness: each look would cost."""
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in value}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return str(value)
    return value
