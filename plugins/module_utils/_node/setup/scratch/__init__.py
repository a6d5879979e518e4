# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The node's scratch: RAID 0 over the local NVMe disks, a file system on it, mounted; and its absence.

``read_facts`` looks, ``plan`` decides (pure), ``apply`` does; ``ensure`` is all three under a lock. Nothing that this
package did not make is ever destroyed, unless that very disk is forced.
"""
