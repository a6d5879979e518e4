# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The ledger: what each node-second was used for, and how reliable nodes are, on the controller.

Its sources outlive restarts of every daemon: slurmdbd's runs of jobs and events of nodes, the publication times of
checkpoints in their store, and the arbiter's log of machines.
"""
