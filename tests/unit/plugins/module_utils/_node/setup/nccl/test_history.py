# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recognising topology files: what they mean, and which known file they are."""

from __future__ import annotations

import pytest
from stand_ins import topology_files

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.elements import (
    Element,
    NoTopology,
    as_text,
    meaning,
    parse,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.history import is_ours, recognise
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.topology import as_xml, topology_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

RIGHT = topology_files.right()
NDV4 = RIGHT["Standard_ND96asr_v4"]


@pytest.mark.parametrize("label", list(topology_files.broken()))
def test_each_broken_file_of_earlier_images_is_recognised(label: str) -> None:
    known = recognise(topology_files.broken()[label][1])
    assert known is not None
    assert (str(known), bool(known.broken)) == (label, True)


@pytest.mark.parametrize("label", list(topology_files.broken()))
def test_a_broken_file_is_recognised_in_other_notations(label: str) -> None:
    text = topology_files.broken()[label][1]
    text = text.replace("16 GT/s", "16.0 GT/s PCIe").replace('device="0x0000"', "").replace('familyid="23"', "")
    assert str(recognise(text)) == label


@pytest.mark.parametrize("size", list(RIGHT))
def test_a_correct_file_is_recognised_as_correct(size: str) -> None:
    known = recognise(RIGHT[size])
    assert known is not None
    assert (known.label, known.broken) == ("right", "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not xml",
        "<graphs version='1'/>",
        "<system version='1'/>",
        NDV4.replace("00ffffff", "000fffff"),
        NDV4.replace('numaid="2"', 'numaid="7"'),
        NDV4.replace("0003:00", "000f:00"),
        NDV4.replace('affinity="00000000,00000000,00ffffff"', 'affinity="all"'),
    ],
)
def test_files_that_no_image_had_are_not_recognised(text: str) -> None:
    assert recognise(text) is None


def test_our_own_files_are_recognised_by_their_comment() -> None:
    topology = topology_of(find_size("nd96asr_v4"))
    assert not isinstance(topology, str)
    assert is_ours(as_xml(topology))
    assert not is_ours(NDV4)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('link_speed="16 GT/s"', 'link_speed="16.0 GT/s PCIe"'),
        ("0003:00:00.0", "00000003:00:00.0"),
        ("0103:00:00.0", "0103:00:00.0".upper()),
        ('affinity="00000000,00000000,00ffffff"', 'affinity="00ffffff"'),
        ('class="0x060400"', 'vendor="0x0000" class="0x060400"'),
        ('numaid="0"', 'host_hash="0x1" numaid="0"'),
    ],
)
def test_spelling_does_not_change_the_meaning(before: str, after: str) -> None:
    assert before in NDV4
    assert meaning(parse(NDV4.replace(before, after))) == meaning(parse(NDV4))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('link_speed="16 GT/s"', 'link_speed="8 GT/s"'),
        ('link_width="16"', 'link_width="8"'),
        ("0103:00:00.0", "0109:00:00.0"),
        ("00ffffff", "00fffffe"),
        ('modelid="49"', 'modelid="1"'),
        ('class="0x060400"', 'vendor="0x1000" class="0x060400"'),
        ("ffff:ff:01.0", "ffff:ff:05.0"),
    ],
)
def test_what_nccl_interprets_differently_changes_the_meaning(before: str, after: str) -> None:
    assert before in NDV4
    assert meaning(parse(NDV4.replace(before, after, 1))) != meaning(parse(NDV4))


def test_a_device_behind_another_switch_changes_the_meaning() -> None:
    rows = topology_files.NDV4
    moved: list[topology_files.Row] = [
        (rows[0][0], rows[0][1], [("01", "0003 0103"), ("05", "0004 0104")]),
        *rows[1:],
    ]
    text = topology_files.text(topology_files.system(moved, topology_files.AMD_ROME, topology_files.GEN4))
    assert meaning(parse(text)) != meaning(parse(NDV4))


def test_the_order_of_siblings_does_not_change_the_meaning() -> None:
    rows = list(reversed(topology_files.NDV4))
    text = topology_files.text(topology_files.system(rows, topology_files.AMD_ROME, topology_files.GEN4))
    assert text != NDV4
    assert meaning(parse(text)) == meaning(parse(NDV4))


@pytest.mark.parametrize("text", ["", "<system", "\x00", "<cpu/>"])
def test_text_that_is_no_topology_is_refused(text: str) -> None:
    with pytest.raises(NoTopology):
        parse(text)


def test_special_characters_are_written_and_read_back() -> None:
    element = Element("system", {"version": "1"}, (Element("net", {"name": "<&\">'"}),))
    assert parse(as_text(element, "x")) == element
