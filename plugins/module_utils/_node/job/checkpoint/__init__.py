# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Checkpoints of a job in Blob storage: published whole or not at all, and fetched whole or not at all.

Where things lie below the place of a series (``names``), and in which order they are written (``publish``,
``manifest``) and removed (``prune``), is what keeps half a checkpoint from being taken for a whole one.
"""
