# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The variables that a VM size needs outside NCCL's own file: of MPI, UCX and CUDA. Only what a source states.

* HCOLL off and GPUs in the order of the bus: Microsoft's article on ND A100 v4 asks for both wherever MPI starts NCCL
  jobs, and azhpc-images runs its tests so on every family (tests/test-definitions.sh). The article spells the first
  ``OMPI_MCA_COLL_HCOLL_ENABLE``, which Open MPI does not read: parameters are in small letters.
* ``UCX_IB_PCI_RELAXED_ORDERING``: azurehpc, experimental/run_nccl_tests_ndv4; azhpc-images, tests/health_checks/NDv4.
* What is set where MPI only starts the processes: the same for ND A100 v4; test-definitions.sh for the other sizes with
  tcp, and for GB200 and GB300; ai-infrastructure-on-azure, NCCL/configs/hopper.conf, for H100 and H200 with InfiniBand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...sku import VmSize
from ..nccl.conf import texts_of

_ALL: Mapping[str, str] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMPI_MCA_coll_hcoll_enable": "0"}
_AMD = ("MI300X",)

_ND_A100 = ("Standard_ND96asr_v4", "Standard_ND96amsr_A100_v4")
_OF_SIZE: Mapping[str, Mapping[str, str]] = {name: {"UCX_IB_PCI_RELAXED_ORDERING": "on"} for name in _ND_A100}

_TCP = {"UCX_TLS": "tcp"}
_HOPPER = {"UCX_TLS": "rc", "UCX_NET_DEVICES": "mlx5_ib0:1"}
_GRACE = {"UCX_TLS": "rc", "UCX_IB_GID_INDEX": "0"}
_LAUNCH_ONLY: Mapping[str, Mapping[str, str]] = {
    **{name: {**_TCP, "UCX_NET_DEVICES": "eth0"} for name in _ND_A100},
    "Standard_ND40rs_v2": _TCP,
    "Standard_NC24ads_A100_v4": _TCP,
    "Standard_NC48ads_A100_v4": _TCP,
    "Standard_NC96ads_A100_v4": _TCP,
    "Standard_NC80adis_H100_v5": _TCP,
    "Standard_ND96isr_H100_v5": _HOPPER,
    "Standard_ND96isr_H200_v5": _HOPPER,
    "Standard_ND96isrf_H200_v5": _HOPPER,
    "Standard_ND128isr_NDR_GB200_v6": _GRACE,
    "Standard_ND128isr_GB300_v6": _GRACE,
}


def variables(size: VmSize, launch_only: bool, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables by name: the size's, and the user's on top.

    :param launch_only: MPI only starts the processes here, and carries no data.
    :param settings: the user's; None as a value takes a variable out.
    :raises SettingsError: a name or value of the user's that cannot be written.
    """
    merged: dict[str, Any] = {}
    if size.gpu_model not in _AMD:
        merged = {**_ALL, **_OF_SIZE.get(size.name, {})}
        if launch_only:
            merged.update(_LAUNCH_ONLY.get(size.name, {}))
    merged.update(settings)
    return texts_of(merged)
