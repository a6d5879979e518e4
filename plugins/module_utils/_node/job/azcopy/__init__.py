# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Blob storage through azcopy: the only package that calls azcopy and works around its behaviour.

azcopy's result is not trusted: it reports 'Completed' even if access to each file of a list was refused, and it waits
for hours if an account throttles it. So each function here determines itself what was transferred, and why the rest was
not.
"""
