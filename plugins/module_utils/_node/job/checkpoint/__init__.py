# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Checkpoints of a job in Blob storage: published and restored completely or not at all.

The layout below the location of a series (``names``), and the order in which blobs are written (``publish``,
``manifest``) and removed (``prune``), make sure that an incomplete checkpoint never counts as complete.
"""
