# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The node's scratch: a RAID 0 over the local NVMe disks with a mounted file system. Can also remove it.

``read_facts`` reads the machine, ``plan`` decides (pure), ``apply`` makes the changes; ``ensure`` does all three under
a lock. Nothing that this package did not create is ever destroyed, unless that disk is listed in ``force_devices``.
"""
