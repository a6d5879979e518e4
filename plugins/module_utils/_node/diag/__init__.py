# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A support bundle: what a node knows about itself, without secrets, in one archive.

The catalogue lists what is read. Settings show only values that are known to be harmless; all other text is searched
for patterns of secrets. Files with keys, tokens, user data, and environments of processes are never opened.
"""
