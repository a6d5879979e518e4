# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of gpu_clocks, and which GPUs they select."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import as_config
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuFacts
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.clocks import ClockOptions, chosen, parse

GPUS = (
    GpuFacts(index=0, uuid="GPU-aa", busid="0001:00:00.0"),
    GpuFacts(index=1, uuid="GPU-bb", busid="0002:00:00.0", mig=True, mig_instances=("MIG-b1", "MIG-b2")),
    GpuFacts(index=2, busid="0003:00:00.0", problem="GPU is lost"),
)


def test_options_are_read_back_from_the_file_unchanged() -> None:
    options = parse({"state": "explicit", "graphics_mhz": 1095, "gpus": [0, "GPU-aa"], "persistence": True})
    assert options.gpus == ("0", "GPU-aa")
    assert parse(options.as_options()) == options
    assert "memory_mhz" not in options.as_options()
    assert parse({}) == ClockOptions()


def test_equal_options_have_the_same_text_in_the_file() -> None:
    """Modules pass a float, and Python callers may pass a whole number."""
    texts = [as_config(parse({"timeout": seconds}).as_options()) for seconds in (9, 9.0)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stat": "max"}, "unknown keys stat; known are state, "),
        ({"state": "fast"}, "state must be max, explicit or default, not 'fast'"),
        ({"method": "boost"}, "method must be auto, application or locked, not 'boost'"),
        ({"on_unsupported": "ignore"}, "on_unsupported must be fail or warn, not 'ignore'"),
        ({"state": "explicit"}, "state=explicit needs graphics_mhz or memory_mhz"),
        ({"graphics_mhz": 1410}, "graphics_mhz needs state=explicit"),
        ({"state": "default", "memory_mhz": 1215}, "memory_mhz needs state=explicit"),
        ({"state": "explicit", "graphics_mhz": "1410"}, "graphics_mhz must be a whole number of 1 or more, not '1410'"),
        ({"state": "explicit", "graphics_mhz": True}, "graphics_mhz must be a whole number of 1 or more"),
        ({"state": "explicit", "graphics_mhz": 0}, "graphics_mhz must be a whole number of 1 or more"),
        ({"gpus": "all"}, "gpus must be a list of 1 or more, not 'all'"),
        ({"gpus": []}, "gpus must be a list of 1 or more, not []"),
        ({"timeout": float("inf")}, "timeout must be seconds above 0, at most 86400, not inf"),
        ({"timeout": float("nan")}, "timeout must be seconds above 0, at most 86400, not nan"),
        ({"timeout": 0}, "must be seconds above 0"),
        ({"timeout": "long"}, "must be seconds above 0"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse(options)


@pytest.mark.parametrize(
    ("names", "indices"),
    [
        (["all"], [0, 1, 2]),
        (["1", "0"], [0, 1]),
        (["00000002:00:00.0"], [1]),
        (["gpu-AA"], [0]),
        (["MIG-b2", "1"], [1]),
        (["2"], [2]),
        (["0003:00:00.0"], [2]),
    ],
)
def test_gpus_are_selected_by_index_address_or_uuid(names: list[str], indices: list[int]) -> None:
    assert [gpu.index for gpu in chosen(GPUS, names)] == indices


@pytest.mark.parametrize("name", ["3", "GPU-cc", "0004:00:00.0", "", "None"])
def test_unknown_gpus_are_refused(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not a GPU of this machine\. GPUs found: 0 = 0001:00:00\.0 = GPU-aa, 1 = "
    ):
        chosen(GPUS, ["0", name])
