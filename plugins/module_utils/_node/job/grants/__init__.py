# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Short-lived access for users to the containers and registries that the cluster's definition grants their groups.

Only root can reach the metadata service, so only root can use the node's identity. ``hpcnode grants serve`` runs as
root, identifies the caller by the socket, and returns a SAS for one container or a password for one registry. It never
returns a token of the node's identity.
"""
