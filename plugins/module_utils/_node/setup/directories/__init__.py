# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The directories that roles and jobs need on the scratch, and the fallback for the scratch without NVMe disks.

``look`` reads the machine, ``choose`` decides where the directories are made (pure), ``ensure`` makes them under a
lock. No symbolic link below the scratch is ever followed, because every user may create one there.
"""
