# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""File systems that machines share: mounts of a client, exports of a server.

A server that is away must not keep a machine from booting, nor whoever looks from an answer.
"""
