# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""File systems that machines share: mounts of a client, exports of a server.

A server that does not answer must not block a machine's boot, and must not make commands hang.
"""
