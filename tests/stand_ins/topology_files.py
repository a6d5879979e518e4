# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Topology files as their sources describe them: correct ones, and wrong ones that images shipped.

They are written from those descriptions, not derived from the table of VM sizes, so that tests compare both.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

# NUMA node, affinity, then behind each switch (directly for None) the GPUs and adapters in the order of the file.
Row = tuple[int, str, list[tuple[str | None, str]]]

NDV4: list[Row] = [
    (0, "00000000,00000000,00ffffff", [("01", "0003 0103 0004 0104")]),
    (1, "00000000,0000ffff,ff000000", [("02", "0001 0101 0002 0102")]),
    (2, "000000ff,ffff0000,00000000", [("03", "000d 0107 000e 0108")]),
    (3, "ffffff00,00000000,00000000", [("04", "000b 0105 000c 0106")]),
]
NDV5: list[Row] = [
    (
        0,
        "00000000,0000ffff,ffffffff",
        [("01", "0001 0101"), ("02", "0002 0102"), ("03", "0003 0103"), ("04", "0008 0104")],
    ),
    (
        1,
        "ffffffff,ffff0000,00000000",
        [("05", "0009 0105"), ("06", "000a 0106"), ("07", "000b 0107"), ("08", "000c 0108")],
    ),
]
NDV2: list[Row] = [
    (0, "00000000,000fffff", [(None, "0001 0002 0003 0004 0101")]),
    (1, "000000ff,fff00000", [(None, "0005 0006 0007 0008")]),
]
NCV4: list[Row] = [
    (0, "00000000,00000000,00ffffff", [(None, "0001")]),
    (1, "00000000,0000ffff,ff000000", [(None, "0002")]),
    (2, "000000ff,ffff0000,00000000", [(None, "0003")]),
    (3, "ffffff00,00000000,00000000", [(None, "0004")]),
]
AMD_ROME = {"vendor": "AuthenticAMD", "familyid": "23", "modelid": "49"}
AMD_OF_NC = {"vendor": "AuthenticAMD", "familyid": "175", "modelid": "1"}
SAPPHIRE_RAPIDS = {"vendor": "GenuineIntel", "familyid": "6", "modelid": "143"}
SKYLAKE = {"vendor": "GenuineIntel", "familyid": "6", "modelid": "85"}

GEN4 = {"link_speed": "16 GT/s", "link_width": "16"}
GEN5 = {"vendor": "0x0000", "device": "0x0000", "link_speed": "32.0 GT/s PCIe", "link_width": "16"}
UNSTATED = {"link_speed": "", "link_width": "0"}
NONSENSE = "0000ffff,0000ffff"


def system(
    rows: Sequence[Row],
    cpu: dict[str, str],
    link: dict[str, str],
    peers: dict[str, str] | None = None,
    ethernet: bool = False,
) -> ElementTree.Element:
    """Return the root element of the file that these rows describe."""
    root = ElementTree.Element("system", version="1")
    for numa_node, affinity, branches in rows:
        attributes = {"numaid": str(numa_node), "affinity": affinity, "arch": "x86_64", **cpu}
        node = ElementTree.SubElement(root, "cpu", attributes)
        for switch, domains in branches:
            place = node
            if switch:
                bridge = {"busid": f"ffff:ff:{switch}.0", "class": "0x060400", **link}
                place = ElementTree.SubElement(node, "pci", bridge)
            for domain in domains.split():
                _device(place, domain, link, peers)
        if ethernet and numa_node == 0:
            nic = ElementTree.SubElement(node, "nic")
            ElementTree.SubElement(nic, "net", name="eth0", dev="0", speed="100000", gdr="0")
    return root


def _device(place: ElementTree.Element, domain: str, link: dict[str, str], peers: dict[str, str] | None) -> None:
    kind = "0x020700" if domain.startswith("01") else "0x030200"
    pci = ElementTree.SubElement(place, "pci", {"busid": f"{domain}:00:00.0", "class": kind, **link})
    if peers is not None:
        pci.attrib.update(
            vendor="0x10de", device="0x20b5", subsystem_vendor="0x10de", subsystem_device="0x1533", **UNSTATED
        )
        index = str(int(domain) - 1)
        gpu = ElementTree.SubElement(pci, "gpu", dev=index, sm="80", rank=index, gdr="1")
        target = f"{peers[domain]}:00:00.0"
        ElementTree.SubElement(gpu, "nvlink", target=target, count="12", tclass="0x030200")


PAIRS = {"0001": "0002", "0002": "0001", "0003": "0004", "0004": "0003"}
THEMSELVES = {domain: domain for domain in PAIRS}


def relabelled(rows: Sequence[Row], masks: Sequence[str], numa_nodes: Sequence[int] | None = None) -> list[Row]:
    """Return the rows with other masks and other NUMA nodes."""
    nodes = numa_nodes or [row[0] for row in rows]
    return [(node, mask, row[2]) for row, mask, node in zip(rows, masks, nodes, strict=True)]


def text(root: ElementTree.Element) -> str:
    """Return the file's text."""
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def right() -> dict[str, str]:
    """Return the correct file of each VM size."""
    return {
        "Standard_ND96asr_v4": text(system(NDV4, AMD_ROME, GEN4)),
        "Standard_ND96amsr_A100_v4": text(system(NDV4, AMD_ROME, GEN4)),
        "Standard_ND96isr_H100_v5": text(system(NDV5, SAPPHIRE_RAPIDS, GEN5)),
        "Standard_ND96isr_H200_v5": text(system(NDV5, SAPPHIRE_RAPIDS, GEN5)),
        "Standard_ND40rs_v2": text(system(NDV2, SKYLAKE, GEN4)),
        "Standard_NC96ads_A100_v4": text(system(NCV4, AMD_OF_NC, UNSTATED, PAIRS, ethernet=True)),
    }


def broken() -> dict[str, tuple[str, str]]:
    """Return, by label, a VM size and a wrong file that its images contained."""
    first = [(0, NONSENSE, [branch for row in NDV4 for branch in row[2]])]
    ndv4_swapped = relabelled(NDV4, [NONSENSE] * 4, [1, 0, 3, 2])
    low, high = NDV5[0][1], NDV5[1][1]
    ndv4, ndv5 = "Standard_ND96asr_v4", "Standard_ND96isr_H100_v5"
    return {
        "ndv4, before 2022-08: one NUMA node for all GPUs, affinity mask wrong": (
            ndv4,
            text(system(first, AMD_ROME | {"familyid": "143"}, GEN4)),
        ),
        "ndv4, before 2023-09: NUMA nodes swapped (0 with 1, 2 with 3), affinity masks wrong": (
            ndv4,
            text(system(ndv4_swapped, AMD_ROME, GEN4)),
        ),
        "ndv4, before 2025-02: affinity masks wrong": (
            ndv4,
            text(system(relabelled(NDV4, [NONSENSE] * 4), AMD_ROME, GEN4)),
        ),
        "ndv5, before 2023-05: NUMA nodes and affinity masks swapped": (
            ndv5,
            text(system(relabelled(NDV5, [high, low], [1, 0]), SAPPHIRE_RAPIDS, GEN5)),
        ),
        "ndv5, before 2025-02: affinity masks swapped": (
            ndv5,
            text(system(relabelled(NDV5, [high, low]), SAPPHIRE_RAPIDS, GEN5)),
        ),
        "ndv2, before 2025-02: affinity masks wrong": (
            "Standard_ND40rs_v2",
            text(system(relabelled(NDV2, [NONSENSE] * 2), SKYLAKE, GEN4)),
        ),
        "ncv4, since 2024-02: NVLinks of each GPU with itself": (
            "Standard_NC96ads_A100_v4",
            text(system(NCV4, AMD_OF_NC, UNSTATED, THEMSELVES, ethernet=True)),
        ),
    }
