# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode sku, from its words to its exit status."""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import GOOD, Answer, UsageError
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.sku import COMMAND
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError, as_config
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import (
    SIZES,
    SOURCES,
    UnknownVmSize,
    facts_of,
)

ND = "Standard_ND96asr_v4"


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """A machine's root with nothing in it."""
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    return tmp_path


def settings(root: pathlib.Path, **values: Any) -> None:
    """Write the node's settings."""
    (root / "etc/hpcai/node.json").write_text(as_config(values), encoding="utf-8")


def sku(root: pathlib.Path, *words: str) -> Answer:
    """What the command answers."""
    parser = argparse.ArgumentParser()
    COMMAND.add_arguments(parser)
    args = parser.parse_args(words)
    args.root = str(root)
    return COMMAND.execute(args)


def lines(answer: Answer) -> list[str]:
    """The answer's lines with single blanks."""
    return [" ".join(line.split()) for line in answer.text.splitlines()]


def test_a_size_is_shown_in_any_spelling(root: pathlib.Path) -> None:
    answer = sku(root, "nd96ASR_v4")
    assert answer.status == GOOD
    assert answer.data == {"vm_size": ND, "origin": "given", "facts": facts_of(SIZES[ND])}
    shown = lines(answer)
    assert shown[0] == f"{ND} (given)"
    assert "vcpus 96" in shown
    assert "cpu AuthenticAMD family 23 model 49 (x86_64)" in shown
    assert shown[shown.index("numa_nodes 0: CPUs 0-23") + 3] == "3: CPUs 72-95"
    assert shown[shown.index("gpus 0: 0001:00:00.0, NUMA node 1, switch 2") + 4] == (
        "4: 000b:00:00.0, NUMA node 3, switch 4"
    )
    assert "nccl_settings NCCL_IB_PCI_RELAXED_ORDERING=1" in shown
    assert "nccl_allreduce at least 228 GB/s (8G)" in shown
    assert "ecc_dram_errors at most 20000000 errors" in shown


def test_unknown_and_none_are_told_apart(root: pathlib.Path) -> None:
    shown = lines(sku(root, "NC40ads_H100_v5"))
    assert {"numa_nodes unknown", "gpus unknown", "hcas none", "hca_count 0"} <= set(shown)


def test_a_slot_without_a_switch_shows_none(root: pathlib.Path) -> None:
    assert "hcas 0: 0101:00:00.0, NUMA node 0" in lines(sku(root, "nd40rs_v2"))


def test_limits_show_what_is_worth_a_warning_and_what_is_typical(root: pathlib.Path) -> None:
    shown = lines(sku(root, "ND96isr_H100_v5"))
    assert "gemm at least 715 TFLOP/s (ubergemm, per GPU, warn 742, typical 769)" in shown
    assert "nccl_ib_loopback at least 40 GB/s (typical 46.4)" in shown


def test_this_machines_size_is_the_default(root: pathlib.Path) -> None:
    settings(root, vm_size="nd96asr_v4")
    answer = sku(root)
    assert (answer.data["vm_size"], answer.data["origin"]) == (ND, "node.json")


def test_sizes_of_the_nodes_settings_win(root: pathlib.Path) -> None:
    settings(root, vm_size="nd96asr_v4", vm_sizes={"ND96asr_v4": {"vcpus": 2}})
    assert sku(root).data["facts"]["vcpus"] == 2
    assert sku(root, "--all").data["sizes"][ND]["vcpus"] == 2


def test_a_machine_that_nobody_names_is_an_error_that_says_where_to_name_it(root: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"node\.json"):
        sku(root)


def test_an_unknown_size_is_an_error_with_the_nearest_ones(root: pathlib.Path) -> None:
    with pytest.raises(UnknownVmSize, match=r"nearest known sizes are Standard_ND96asr_v4"):
        sku(root, "nd96asr_v5")


def test_sources_show_letters_contradictions_and_what_the_letters_mean(root: pathlib.Path) -> None:
    answer = sku(root, ND, "--sources")
    shown = lines(answer)
    assert "vcpus 96 C, T" in shown
    assert "nccl_allreduce at least 228 GB/s (8G) C, O" in shown
    assert "ib_gdr_write: C: 180 Gb/s; O: 185 Gb/s; K: 185 Gb/s. Here C is used: the newest and most lenient." in shown
    assert f"T: {SOURCES['T']}" in shown
    assert f"B: {SOURCES['B']}" not in shown
    assert answer.data["sources"] == SOURCES
    without = sku(root, ND)
    assert "sources" not in without.data
    assert "disagree" not in without.text


def test_where_no_source_was_taken_it_says_so(root: pathlib.Path) -> None:
    assert "Here none is used: one GPU has no peer." in sku(root, "NC24ads_A100_v4", "--sources").text


def test_all_lists_a_line_for_each_size(root: pathlib.Path) -> None:
    answer = sku(root, "--all")
    shown = lines(answer)
    assert shown[0] == "SIZE CPUS NUMA NODES MEMORY MIB GPUS INFINIBAND NVME"
    assert [line.split()[0] for line in shown[1:]] == list(SIZES)
    assert f"{ND} 96 4 907088 8 x A100-SXM4-40GB 8 x 200 Gb/s 8" in shown
    assert "Standard_NC40ads_H100_v5 40 unknown 322244 1 x H100-NVL none unknown" in shown
    assert answer.data["sizes"] == {name: facts_of(size) for name, size in SIZES.items()}
    assert f"G: {SOURCES['G']}" in lines(sku(root, "--all", "--sources"))


def test_all_tells_what_is_unknown_of_a_described_size(root: pathlib.Path) -> None:
    settings(root, vm_sizes={"X": {"vcpus": 4, "gpu_count": 2, "hca_count": 1}})
    assert lines(sku(root, "--all"))[-1] == "Standard_X 4 unknown unknown 2 1 unknown"
    settings(root, vm_sizes={"X": {"vcpus": 4, "nvme_count": 0}})
    assert lines(sku(root, "--all"))[-1] == "Standard_X 4 unknown unknown unknown unknown none"


@pytest.mark.parametrize(
    ("words", "status"),
    [((ND,), 0), (("--all",), 0), (("nd96asr_v5",), 2), ((), 2), ((ND, "--all"), 3), (("--nonsense",), 3)],
)
def test_the_exit_status_tells_good_from_unknown_and_wrong_usage(
    root: pathlib.Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int
) -> None:
    assert main(["sku", "--root", str(root), *words]) == status
    captured = capsys.readouterr()
    assert bool(captured.out) is (status == 0)
    assert captured.err.count("\n") == (1 if status else 0)


def test_a_size_and_all_make_no_sense_together(root: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="--all lists all sizes"):
        sku(root, ND, "--all")


@pytest.mark.parametrize("words", [(ND,), ("--all",), (ND, "--sources")])
def test_the_answer_is_json(root: pathlib.Path, words: tuple[str, ...]) -> None:
    data = sku(root, *words).data
    assert json.loads(json.dumps(data)) == data
    assert not data.keys() & {"schema", "command", "status"}
