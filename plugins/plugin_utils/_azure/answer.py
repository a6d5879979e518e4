# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Azure answered, in a form that can be kept: plain data without any type of the SDK."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from .instance_facts import Instance
from .network_facts import VirtualNetwork
from .scale_set_facts import ScaleSetFacts


class Answer(TypedDict):
    """Everything that was listed for one source.

    ``errors`` names each list that failed; without any, the answer is complete. ``left_out`` counts, by reason, what
    was listed but is no host. ``seen`` has the values that the filters met, for a source that brings no host.
    """

    instances: list[Instance]
    scale_sets: list[ScaleSetFacts]
    virtual_networks: list[VirtualNetwork]
    left_out: dict[str, int]
    errors: list[str]
    requests: int
    seen: NotRequired[dict[str, list[str]]]
