# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The names of leased machines in the controller's /etc/hosts, so that they resolve without Azure's DNS.

slurmctld reports a failed node to a job's srun by the host name of srun's machine. If that does not resolve, slurmctld
tries for 10 s, and answers nobody meanwhile. site.yml writes the names of static machines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..machine.lock import Locked, only_one
from ..machine.root import Root
from ..setup.hosts_file import HOSTS, HOSTS_LOCK, is_address
from ..setup.managed_file import BrokenBlock, block_lines, change_of, read_file, with_block, without_block
from .book import JOINED, LEASED, Lease

BLOCK = "machines of elastic sets, written by hpcai-elastic"
_LOCK_S = 2.0
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def lines_of(leases: Mapping[str, Lease]) -> list[str]:
    """Return the lines for machines that may be used: address, node name, host name."""
    found = []
    for slot, lease in sorted(leases.items()):
        names = [name for name in dict.fromkeys((slot, lease.host_name)) if _NAME.fullmatch(name)]
        if lease.state in (LEASED, JOINED) and names and is_address(lease.address):
            found.append(" ".join([lease.address, *names]))
    return found


def write(root: Root, leases: Mapping[str, Lease]) -> str:
    """Write the names, if they have changed, and return why that is not possible; usually empty."""
    wanted = lines_of(leases)
    try:
        with only_one(root.at(HOSTS_LOCK), _LOCK_S):
            before, mode = read_file(root.at(HOSTS))
            if block_lines(before or "", BLOCK) == wanted:
                return ""
            text = with_block(before or "", BLOCK, wanted) if wanted else without_block(before or "", BLOCK)
            change_of(root.at(HOSTS), text, mode or 0o644).apply()
    except (BrokenBlock, Locked, OSError) as error:
        return f"{HOSTS} does not get the names of the machines: {error}"
    return ""
