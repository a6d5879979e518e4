# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The directories that roles and jobs need on the scratch, and what takes the scratch's place without NVMe disks.

``look`` finds out what is there, ``choose`` decides where the directories belong (pure), ``ensure`` does it under a
lock. No symbolic link below the scratch is ever followed: each user may put one there.
"""
