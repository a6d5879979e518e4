# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Staging: copies a data set from Blob storage to a job's file system; each node copies its shard.

Manifests with a line for each verified file decide what is complete. azcopy's own messages do not.
"""
