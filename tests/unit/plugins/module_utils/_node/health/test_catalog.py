# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The catalogue of the health checks: each check of a file is in it, each is complete, and has its three tests."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re
import subprocess
import sys
from types import ModuleType

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.bench import catalog as bench
from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog, deep
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import ACTIONS, DEEP, PROLOG, TIERS, Check
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks import nccl
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.engine import LIMIT_S
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import all_sizes
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.types import VmSize
from ansible_collections.hpcai.azure.plugins.modules import nccl_pairs

REPOSITORY = pathlib.Path(__file__).resolve().parents[6]
FOLDER = REPOSITORY / "plugins/module_utils/_node/health/checks"
TESTS = pathlib.Path(__file__).with_name("checks")
KINDS = ("test_fails", "test_passes", "test_cannot_measure")
BLOCKING = {
    "gpu_count": "GPU absent",
    "scratch": "scratch absent",
    "ib_ports": "fabric down",
    "gpu_fabric": "fabric down",
}
"""The checks that may keep a job or slurmd from starting, and which of the three kinds each is."""
CHECKS = catalog.all_checks()


def kinds_missing(file: pathlib.Path, check: str = "") -> list[str]:
    """Return the kinds of tests that a file lacks; tests in other files do not count.

    :param check: the check's name if the file has tests of several checks: their names begin with it.
    """
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.exists() else ast.Module([], [])
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    expected = {kind: kind.replace("test_", f"test_{check}_") if check else kind for kind in KINDS}
    return [kind for kind in KINDS if not any(name.startswith(expected[kind]) for name in names)]


def checks_in(file: pathlib.Path) -> list[str]:
    """Return the names of the checks that a file defines: its constants in lower case."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    made = [node for node in body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    return [ast.unparse(one.targets[0]).lower() for one in made if ast.unparse(one.value).startswith("Check(")]


def test_each_check_of_a_file_is_in_the_catalogue() -> None:
    found = [(check, file.stem) for file in FOLDER.glob("*.py") for check in checks_in(file)]
    assert found
    assert sorted(found) == sorted(catalog.CATALOGUE)
    assert {file.stem for file in FOLDER.glob("*.py")} - {"__init__"} == {file for _check, file in found}
    assert [check.name for check in CHECKS] == list(catalog.NAMES)


def test_prolog_names_are_the_checks_of_the_tier_prolog() -> None:
    assert {check.name for check in CHECKS if PROLOG in check.tiers} == catalog.PROLOG_NAMES
    assert {check.name for check in catalog.select_checks(PROLOG)} == catalog.PROLOG_NAMES


def test_a_prolog_imports_only_files_with_prolog_checks(tmp_path: pathlib.Path) -> None:
    settings = tmp_path / "etc/hpcai/health.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"schema": 1, "off": ["cpu"], "warn_only": ["network"]}', encoding="ascii")
    # In another process, because this one has imported all checks.
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from _node.health import catalog, engine\n"
        "from _node.machine.root import Root\n"
        "assert engine.machine_of(Root(sys.argv[2]), None).settings.off == ('cpu',)\n"
        "catalog.select_checks('prolog')\n"
        "print(*(name for name in sys.modules if name.startswith('_node.health.checks.')))\n"
    )
    argv = [sys.executable, "-I", "-c", program, str(REPOSITORY / "plugins/module_utils"), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    expected = {file for check, file in catalog.CATALOGUE if check in catalog.PROLOG_NAMES}
    assert {name.rpartition(".")[2] for name in done.stdout.split()} == expected
    assert len(expected) < len(set(dict(catalog.CATALOGUE).values()))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_check_has_its_three_tests(check: Check) -> None:
    file = dict(catalog.CATALOGUE)[check.name]
    is_alone = len(checks_in(FOLDER / f"{file}.py")) == 1
    assert kinds_missing(TESTS / f"test_{file}.py", "" if is_alone else check.name) == []


def test_a_missing_test_is_noticed(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "test_demo.py"
    assert kinds_missing(file) == list(KINDS)
    file.write_text("def test_fails_here(): ...\ndef test_passes(): ...\n# def test_cannot_measure(): ...\n")
    assert kinds_missing(file) == ["test_cannot_measure"]
    file.write_text("def test_demo_fails_here(): ...\ndef test_demo_passes(): ...\ndef test_fails(): ...\n")
    assert kinds_missing(file, "demo") == ["test_cannot_measure"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_check_has_a_title_an_explanation_and_an_action(check: Check) -> None:
    assert check.title == check.title.strip(" .")
    assert len(check.title) <= 100
    assert "\n" not in check.title + check.explain
    assert check.explain.endswith((".", ")"))
    assert len(check.explain.split()) >= 8
    assert check.action in ACTIONS
    assert re.fullmatch(r"(NHC20\d\d)?", check.fault)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_check_has_its_tiers_and_a_limit(check: Check) -> None:
    assert check.tiers
    assert set(check.tiers) <= set(TIERS)
    assert check.limit_s > 0
    if DEEP in check.tiers and len(check.tiers) == 1:
        return
    assert check.limit_s <= max(LIMIT_S.values())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_each_threshold_exists_for_some_size(check: Check) -> None:
    known = {name for size in all_sizes().values() for name in size.thresholds}
    assert set(check.thresholds) <= known


@pytest.mark.parametrize("size", all_sizes().values(), ids=lambda size: size.name)
def test_every_limit_of_a_size_is_read(size: VmSize) -> None:
    """By a check that applies to the size, a benchmark, or the search for bad pairs, with the limit's message size."""
    read = {name for check in CHECKS if not check.applies(size) for name in check.limits}
    read |= {name for benchmark in bench.CATALOGUE for name in benchmark.thresholds}
    for name, threshold in size.thresholds.items():
        by_pairs = name == nccl_pairs.THRESHOLD and re.search(r"\b\d+[KMG]\b", threshold.at)
        assert name in read or by_pairs, f"nothing reads {name} of {size.name}: check it, or remove it"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_no_limit_is_named_twice(check: Check) -> None:
    assert len(set(check.limits)) == len(check.limits)


def options_read(module: ModuleType, check: str = "check") -> set[str]:
    """Return the names of the options that a module reads, given as literals or as constants.

    :param check: the expression of the check whose options they are.
    """
    tree = ast.parse(pathlib.Path(str(module.__file__)).read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > 1]
    asked = [
        node.args[1]
        for node in calls
        if ast.unparse(node.func).rsplit(".", maxsplit=1)[-1] == "option" and ast.unparse(node.args[0]) == check
    ]
    return {str(one.value) if isinstance(one, ast.Constant) else getattr(module, ast.unparse(one)) for one in asked}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_manifest_lists_exactly_the_options_that_are_read(check: Check) -> None:
    """Otherwise a site could set an option that has no effect."""
    module = importlib.import_module(check.measure.__module__)
    asked = options_read(module, check.name.upper())
    of_helpers = {name for helper in (deep, nccl) for name in options_read(helper)}
    assert of_helpers == {"while_busy", "program", "size"}
    assert asked <= set(check.options) <= asked | of_helpers


def test_only_the_listed_checks_block_a_job_or_slurmd() -> None:
    assert {check.name for check in CHECKS if check.blocks_job} <= BLOCKING.keys()
    assert {check.name for check in CHECKS if check.blocks_boot} <= BLOCKING.keys()
    assert {BLOCKING[check.name] for check in CHECKS if check.blocks_job} == set(BLOCKING.values())
    assert not [check.name for check in CHECKS if check.blocks_job and PROLOG not in check.tiers]
    assert not [check.name for check in CHECKS if check.blocks_job and check.thresholds], "a limit never blocks"


@pytest.mark.parametrize("tier", TIERS)
def test_each_tier_has_checks_in_the_order_of_the_catalogue(tier: str) -> None:
    chosen = [check.name for check in catalog.select_checks(tier)]
    assert chosen == [name for name in catalog.NAMES if name in chosen]
    assert len(chosen) > 1
    assert [check.name for check in catalog.select_checks(tier, chosen[:1:-1])] == chosen[2:]


def test_a_long_check_is_in_the_deep_tier_only() -> None:
    """Only the deep tier has the time, and may disturb a job."""
    assert not [check.name for check in CHECKS if check.limit_s > LIMIT_S["periodic"] and check.tiers != (DEEP,)]


def test_zero_checks_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "NAMES", ())
    with pytest.raises(catalog.NoSuchCheck, match="tier prolog has no checks: this hpcnode is incomplete"):
        catalog.select_checks(PROLOG)


def test_an_unknown_check_is_an_error_that_lists_the_checks() -> None:
    with pytest.raises(catalog.NoSuchCheck, match=r"there is no check gpu_cont: the checks are vm_size.*gpu_count"):
        catalog.select_checks(PROLOG, ["gpu_count", "gpu_cont"])


def test_ansible_packs_every_check() -> None:
    """AnsiballZ packs only files that are imported: a check that is only named would be missing on each node."""
    tree = ast.parse((FOLDER.parent / "catalog.py").read_text(encoding="utf-8"))
    named = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "checks"
        for alias in node.names
    }
    assert named == set(dict(catalog.CATALOGUE).values())
