# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Azure to list: half of the instances in a Uniform scale set, half in a Flexible one."""

from __future__ import annotations

from simulator.scenario import NetworkScenario, ScaleSetScenario, Scenario

TAGS = {"hpcai_role": "compute", "hpcai_cluster": "bench"}
NETWORK = "10.80.0.0/16"


def scenario(instances: int) -> Scenario:
    """A subscription with so many instances.

    Azure puts 1,000 instances into a scale set at most. Two larger ones are harder to list than many small ones: their
    pages can only be read one after the other.
    """
    uniform = instances // 2
    return Scenario(
        name="bench",
        virtual_networks=(NetworkScenario(address_prefixes=(NETWORK,)),),
        scale_sets=(
            _scale_set("uniform", "Uniform", uniform),
            _scale_set("flexible", "Flexible", instances - uniform),
        ),
    )


def _scale_set(name: str, mode: str, capacity: int) -> ScaleSetScenario:
    return ScaleSetScenario(
        name=name,
        orchestration_mode=mode,
        capacity=capacity,
        computer_name_prefix=name,
        tags=TAGS,
        zones=("1", "2", "3"),
        single_placement_group=False,
    )
