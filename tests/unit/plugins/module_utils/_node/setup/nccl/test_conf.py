# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""/etc/nccl.conf: our block, foreign lines, and what NCCL reads from them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl import conf
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import VmSize, find_size

BEGIN, END = "# BEGIN hpcai.azure nccl_topology\n", "# END hpcai.azure nccl_topology\n"
PATH = "/var/lib/hpcai/nccl-topo.xml"


def nccl_reads(text: str, environment: dict[str, str] | None = None) -> dict[str, str]:
    """Read a file as ``setEnvFile`` of NCCL 2.9 to 2.21 does: the older and stricter of its parsers."""
    found = dict(environment or {})
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals:
            found.setdefault(name, value)
    return found


def test_the_vm_size_gives_its_variables_and_the_topology_file() -> None:
    assert conf.variables(find_size("nd96asr_v4"), PATH, {}) == {
        "NCCL_IB_PCI_RELAXED_ORDERING": "1",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_TOPO_FILE": PATH,
    }


def test_settings_override_variables_and_null_removes_them() -> None:
    settings = {"NCCL_SOCKET_IFNAME": "eth1", "NCCL_DEBUG": " WARN ", "NCCL_IGNORE_CPU_AFFINITY": None}
    variables = conf.variables(find_size("nd96asr_v4"), PATH, settings)
    assert variables == {
        "NCCL_DEBUG": "WARN",
        "NCCL_IB_PCI_RELAXED_ORDERING": "1",
        "NCCL_SOCKET_IFNAME": "eth1",
        "NCCL_TOPO_FILE": PATH,
    }


@pytest.mark.parametrize(("given", "written"), [(True, "1"), (False, "0"), (4, "4"), (1.5, "1.5"), ("", "")])
def test_values_are_written_as_nccl_reads_them(given: Any, written: str) -> None:
    assert conf.variables(VmSize("x"), None, {"NCCL_X": given}) == {"NCCL_X": written}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"NCCL X": "1"}, "'NCCL X' is not a valid variable name"),
        ({"": "1"}, "'' is not a valid variable name"),
        ({"NCCL_X=1\nNCCL_Y": "1"}, "is not a valid variable name"),
        ({"NCCL_X": "1\nNCCL_TOPO_FILE=/evil"}, "settings.NCCL_X must be one line"),
        ({"NCCL_X": "1\x00"}, "must be one line"),
        ({"NCCL_X": "a" * 1024}, "at most 1023 bytes"),
        ({"NCCL_X": ["1"]}, "must be a string or a number"),
        (
            {"NCCL_DEBUG": "WARNING"},
            "NCCL_DEBUG is 'WARNING', which NCCL ignores. Valid values are VERSION, WARN, INFO, ABORT, TRACE.",
        ),
        ({"NCCL_DEBUG": True}, "NCCL_DEBUG is 'True', which NCCL ignores"),
        (
            {"nccl_debug": "INFO"},
            "settings: nccl_debug has no effect, because names are case-sensitive. Write NCCL_DEBUG.",
        ),
        ({"NCCL_Topo_File": None}, "Write NCCL_TOPO_FILE."),
        ({"Ucx_Tls": "rc"}, "Write UCX_TLS."),
        ({"ompi_mca_btl": "tcp"}, "Write OMPI_MCA_btl."),
        ({"OMPI_MCA_COLL_HCOLL_ENABLE": "0"}, "Write OMPI_MCA_coll_hcoll_enable."),
    ],
)
def test_settings_that_nccl_cannot_read_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(conf.SettingsError, match=words.replace("(", r"\(")):
        conf.variables(VmSize("x"), None, settings)


@pytest.mark.parametrize(
    "foreign",
    [
        "",
        "NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml\nNCCL_IB_PCI_RELAXED_ORDERING=1\n",
        "NCCL_DEBUG=INFO",
        "NCCL_DEBUG=INFO\r\nNCCL_X=1\r\n",
        "\n\n# a comment\n  \n",
        "latin \udce9\x0c\x85 and \u2028 more\n",
        "# BEGIN somebody else's block\nNCCL_X=1\n# END somebody else's block\n",
    ],
)
def test_foreign_lines_are_kept_byte_for_byte(foreign: str) -> None:
    written = conf.with_variables(foreign, {"NCCL_TOPO_FILE": PATH})
    assert written == f"{BEGIN}NCCL_TOPO_FILE={PATH}\n{END}{foreign}"
    assert conf.with_variables(written, {"NCCL_TOPO_FILE": PATH}) == written
    assert conf.with_variables(written, {}) == foreign


@pytest.mark.parametrize("level", ["VERSION", "WARN", "INFO", "ABORT", "TRACE", "warn", "Info", ""])
def test_debug_levels_are_accepted_in_any_case(level: str) -> None:
    assert conf.variables(VmSize("x"), None, {"NCCL_DEBUG": level})["NCCL_DEBUG"] == level


def test_our_block_takes_precedence_over_foreign_lines() -> None:
    foreign = "NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml\nNCCL_DEBUG=INFO\n"
    variables = {"NCCL_TOPO_FILE": PATH, "NCCL_SOCKET_IFNAME": "eth0"}
    written = conf.with_variables(foreign, variables)
    assert nccl_reads(written) == {**variables, "NCCL_DEBUG": "INFO"}
    assert conf.effective(written) == nccl_reads(written)
    assert nccl_reads(written, {"NCCL_SOCKET_IFNAME": "mine"})["NCCL_SOCKET_IFNAME"] == "mine"
    assert conf.overridden(written, variables) == ["NCCL_TOPO_FILE=/opt/microsoft/ndv4/topo.xml"]
    assert conf.named_outside(written, "NCCL_TOPO_FILE") == ["/opt/microsoft/ndv4/topo.xml"]


def test_a_block_that_is_not_at_the_top_is_moved_there() -> None:
    text = f"NCCL_TOPO_FILE=/old\n{BEGIN}NCCL_TOPO_FILE={PATH}\n{END}NCCL_DEBUG=INFO\n"
    written = conf.with_variables(text, {"NCCL_TOPO_FILE": PATH})
    assert written == f"{BEGIN}NCCL_TOPO_FILE={PATH}\n{END}NCCL_TOPO_FILE=/old\nNCCL_DEBUG=INFO\n"


def test_the_effective_values_are_the_first_ones() -> None:
    text = "# NCCL_A=0\nNCCL_A=1\nNCCL_A=2\nNCCL_B =3\nNCCL_C=a=b\r\nnothing\n=4"
    assert conf.effective(text) == {"NCCL_A": "1", "NCCL_B ": "3", "NCCL_C": "a=b", "": "4"}
