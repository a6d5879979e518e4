# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Blob storage through azcopy: the one place that speaks to it, and the only one that knows azcopy's habits.

What azcopy says is not believed: it ends with 'Completed' where it was refused each file of a list, and waits for hours
where an account throttles it. So each verb tells by itself what was carried, and why the rest was not.
"""
