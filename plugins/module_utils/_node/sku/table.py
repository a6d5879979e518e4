# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Facts per Azure VM size: the single source of every such number in the collection.

Each number names its source by a letter, explained in ``SOURCES``. What no source states is ``None``, never a guess.
Memory: figures that a source gives in kB were divided by 1024; check_hw_physmem's "MB" and "GB" are powers of 1024.
"""

from __future__ import annotations

from collections.abc import Mapping

from .nc_a100 import NC_A100
from .nc_h100 import NC_H100
from .nd_a100 import ND_A100
from .nd_gb import ND_GB
from .nd_hopper import ND_HOPPER
from .nd_mi300x import ND_MI300X
from .nd_v100 import ND_V100
from .types import VmSize

_ALL = (*ND_A100, *ND_HOPPER, *ND_MI300X, *ND_GB, *ND_V100, *NC_A100, *NC_H100)

SIZES: Mapping[str, VmSize] = {size.name: size for size in _ALL}
