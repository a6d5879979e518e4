# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether RDMA must be used on this machine, and whether it can be."""

from __future__ import annotations

from ...machine.config import ConfigError
from ...machine.rdma import INFINIBAND, read_ports
from ...machine.root import Root
from ...machine.vm_size import size_facts
from ...sku import UnknownVmSize
from .failures import OwnFailure
from .settings import ALLOWED, AUTO, OFF, REQUIRED


def rdma_of(stated: str, root: Root) -> str:
    """Return what RDMA is to be here: REQUIRED, ALLOWED or OFF.

    With AUTO it is required where the machine's VM size has InfiniBand, else there is none to be used. Of a size that
    nobody knows the machine itself is looked at.

    :raises OwnFailure: it is required, and no port carries data.
    """
    wanted = _by_size(root) if stated == AUTO else stated
    if wanted == REQUIRED:
        ports = [port for port in read_ports(root) if port.link_layer == INFINIBAND]
        if not any(port.works for port in ports):
            found = ", ".join(f"{port.label}: {port.condition}" for port in ports) or "there is none"
            raise OwnFailure(f"no InfiniBand port carries data ({found}), and beeond_rdma says that it must")
    return wanted


def _by_size(root: Root) -> str:
    try:
        count = size_facts(root)[0].hca_count
        return REQUIRED if count else OFF
    except (ConfigError, UnknownVmSize):
        has_some = any(port.link_layer == INFINIBAND for port in read_ports(root))
        return REQUIRED if has_some else ALLOWED
