# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The VM size whose hardware this machine is expected to have, for the steps that depend on it."""

from __future__ import annotations

from ..machine.cluster_settings import cluster_of
from ..machine.config import ConfigError, read_config
from ..machine.root import Root
from ..machine.vm_size import size_facts
from ..sku import UnknownVmSize, VmSize


def expected_size(root: Root) -> VmSize | None:
    """Return the facts of the machine's VM size; None if they are unknown and no jobs will run here.

    Only compute nodes need a known VM size. A controller may have any size, and so may a machine that belongs to no
    cluster yet, as a controller before its first site.yml does.

    :raises ConfigError: the size of this compute node cannot be found out, or the settings cannot be used.
    :raises UnknownVmSize: its size is neither in the table nor described.
    """
    try:
        return size_facts(root)[0]
    except (ConfigError, UnknownVmSize):
        cluster = cluster_of(root)
        if cluster is None and not (read_config(root, "node") or {}).get("vm_size"):
            return None
        if cluster and not cluster.is_compute:
            return None
        raise
