# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Who may reach Azure's metadata service: root and listed service users, enforced by an nftables table.

``rules`` makes the texts (pure) and compares the kernel's rules with the file, ``plan`` plans the files and their
service. ``connect`` makes and attaches the filter of connect(2), for sockets that root opened.
"""
