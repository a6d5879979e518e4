# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Short-lived access for users to what the cluster's definition grants their groups.

Only root can reach the metadata service, so only root has the node's identity. ``hpcnode grants serve`` runs as root,
knows its caller by the socket, and gives a SAS of one container or a password of one registry. It never gives a token
of the node's.
"""
