# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Who may log in to a compute node: users with a job there, and admins.

``pam`` makes the texts of the PAM stack (pure), ``plan`` reads the machine, refuses bad input and plans all files.
"""
