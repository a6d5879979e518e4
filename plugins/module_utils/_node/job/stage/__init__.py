# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Staging a data set from Blob storage to a job's file system, each node its shard.

What is complete is decided by manifests of ours, a line for each file that was verified, and by nothing that azcopy
says.
"""
