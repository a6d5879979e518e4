# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guide to VM sizes agrees with the code: its tables equal the table of sizes, and its examples are valid."""

from __future__ import annotations

import pathlib
import re
import textwrap
from collections.abc import Sequence

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, SOURCES, VmSize, find_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.describe import FORMS

REPOSITORY = pathlib.Path(__file__).resolve().parents[6]


@pytest.fixture(scope="module")
def guide() -> str:
    """The text of the guide."""
    return (REPOSITORY / "docs/docsite/rst/guide_vm_sizes.rst").read_text(encoding="utf-8")


def simple_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table in reStructuredText; the first row is its head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def short(size: VmSize) -> str:
    """Return the size's name without the tier."""
    return size.name.removeprefix("Standard_")


def known(value: object) -> str:
    """Return the text of a value in a cell."""
    return "?" if value is None else str(value)


def times(count: int | None, what: object) -> str:
    """Return the text of a count and what is counted."""
    return known(count) if not count else f"{count} x {known(what)}"


def overview() -> str:
    """Return the table of what the sizes have."""
    rows = [("Size", "CPUs", "NUMA nodes", "Memory (MiB)", "GPUs", "InfiniBand (Gb/s)", "NVMe disks")]
    for size in SIZES.values():
        rows.append(
            (
                short(size),
                known(size.vcpus),
                known(size.numa_nodes and len(size.numa_nodes)),
                known(size.memory_mib),
                times(size.gpu_count, size.gpu_model),
                times(size.hca_count, size.ib_rate_gbps),
                known(size.nvme_count),
            )
        )
    return simple_table(rows)


def layout() -> str:
    """Return the table of the GPUs' NUMA nodes."""
    rows = [("Size", "CPUs of NUMA nodes 0, 1, ...", "NUMA node of GPUs 0, 1, ...")]
    for size in SIZES.values():
        if size.numa_nodes and size.gpus:
            cpus = ", ".join(node.cpus for node in size.numa_nodes)
            rows.append((short(size), cpus, " ".join(str(gpu.numa_node) for gpu in size.gpus)))
    return simple_table(rows)


@pytest.mark.parametrize("table", [overview(), layout()], ids=["overview", "layout"])
def test_the_tables_equal_those_made_from_the_code(guide: str, table: str) -> None:
    assert table in guide, f"the guide should contain:\n\n{table}\n"


def test_every_source_is_explained(guide: str) -> None:
    explained = dict(re.findall(r"^``([A-Za-z]+)``\n    (.+(?:\n    .+)*)$", guide, re.MULTILINE))
    sources = {letter: " ".join(words.split()).replace("\\*", "*").rstrip(".") for letter, words in explained.items()}
    assert sources == dict(SOURCES)


def test_every_key_of_a_description_is_documented(guide: str) -> None:
    assert not [key for key in FORMS if f"``{key}``" not in guide]


def test_the_descriptions_in_the_guide_are_valid(guide: str) -> None:
    blocks = re.findall(r"\.\. code-block:: yaml\n\n((?:    .*\n|\n)+)", guide)
    described = [yaml.safe_load(textwrap.dedent(block)) for block in blocks if "hpcai_vm_sizes:" in block]
    assert described
    for variables in described:
        for name in variables["hpcai_vm_sizes"]:
            assert find_size(name, variables["hpcai_vm_sizes"]).sources
    assert {key for variables in described for size in variables["hpcai_vm_sizes"].values() for key in size} == set(
        FORMS
    )


def test_the_guide_is_in_the_table_of_contents() -> None:
    listed = yaml.safe_load((REPOSITORY / "docs/docsite/extra-docs.yml").read_text(encoding="utf-8"))
    assert "guide_vm_sizes" in [name for section in listed["sections"] for name in section["toctree"]]
