# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What containers need on a node: enroot's settings, the pyxis plugin, the boot's sweep, and an importer with a cache.

``options`` says what is wanted, ``enroot`` writes it, ``pyxis`` builds the plugin for the Slurm that is there, and
``ensure`` does all of it for the module container_node.
"""
