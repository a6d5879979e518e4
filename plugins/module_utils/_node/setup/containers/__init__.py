# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What containers need on a node: enroot's settings, the pyxis plugin, the clean-up at boot, and a caching importer.

``options`` has the options, ``enroot`` writes the settings, ``pyxis`` builds the plugin for the installed Slurm, and
``ensure`` does all of it for the module container_node.
"""
