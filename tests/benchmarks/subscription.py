# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The subscription to list: half of the instances in Uniform scale sets, half in Flexible ones."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.scenario import NetworkScenario, ScaleSetScenario, Scenario

TAGS = {"hpcai_role": "compute", "hpcai_cluster": "bench"}
NETWORK = "10.80.0.0/16"


def scenario(instances: int, set_size: int) -> Scenario:
    """A subscription with this many instances, at most ``set_size`` in each scale set.

    Azure's limit is 1,000 instances per scale set. A large set takes longer to list than many small ones, because its
    pages can only be read one after the other.
    """
    uniform = _split("uniform", "Uniform", instances // 2, set_size)
    flexible = _split("flexible", "Flexible", instances - instances // 2, set_size)
    return Scenario(
        name="bench",
        virtual_networks=(NetworkScenario(address_prefixes=(NETWORK,)),),
        scale_sets=(*uniform, *flexible),
    )


def _split(name: str, mode: str, instances: int, set_size: int) -> Iterator[ScaleSetScenario]:
    for number, start in enumerate(range(0, instances, set_size)):
        yield _scale_set(f"{name}{number}", mode, min(set_size, instances - start))


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
