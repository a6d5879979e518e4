# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The catalogue of boot steps: it lists each step's file, in boot order, and is cheap to import."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import catalog
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import units

REPOSITORY = pathlib.Path(__file__).resolve().parents[6]
FOLDER = REPOSITORY / "plugins/module_utils/_node/boot/steps"
ORDER = (
    *("instance", "key", "access", "gpu", "fabric", "scratch"),
    *("directories", "clocks", "nccl", "containers", "health", "join"),
)
BLOCKING = {"instance", "key", "access", "gpu", "fabric", "scratch", "directories", "health", "join"}


def test_each_file_is_a_step_of_the_catalogue() -> None:
    names = {file.stem for file in FOLDER.glob("*.py")} - {"__init__"}
    assert names
    assert sorted(names) == sorted(catalog.NAMES)
    assert catalog.NAMES == ORDER
    assert [step.name for step in catalog.all_steps()] == list(catalog.NAMES)


def test_only_the_listed_steps_are_blocking() -> None:
    assert {step.name for step in catalog.all_steps() if step.blocking} <= BLOCKING
    assert not {step.name for step in catalog.all_steps() if not step.blocking} & (BLOCKING - {"join"})


@pytest.mark.parametrize("step", catalog.all_steps(), ids=lambda step: step.name)
def test_a_step_has_a_title_and_a_limit(step: catalog.Step) -> None:
    assert step.title
    assert 0 < step.limit_s <= 570


def test_without_names_all_steps_except_join_are_selected() -> None:
    chosen = [step.name for step in catalog.select_steps()]
    assert chosen == [step.name for step in catalog.all_steps() if step.name != "join"]
    assert catalog.select_steps([]) == catalog.select_steps()


def test_steps_are_selected_in_boot_order() -> None:
    names = [step.name for step in catalog.all_steps()]
    assert [step.name for step in catalog.select_steps(names[::-1])] == names


def test_an_unknown_step_is_an_error_that_lists_the_steps() -> None:
    with pytest.raises(catalog.NoSuchStep, match=r"there is no step scrach: the steps are .*clocks"):
        catalog.select_steps(["clocks", "scrach"])


def test_the_guides_table_of_steps_is_correct() -> None:
    guide = (REPOSITORY / "docs/docsite/rst/guide_boot.rst").read_text(encoding="utf-8")
    rows = re.findall(r"^``(\w+)`` +(yes|no) +(\d+) ", guide, re.MULTILINE)
    steps = [step for step in catalog.all_steps() if step.name not in catalog.WITHOUT_UNIT]
    assert rows == [(step.name, "yes" if step.blocking else "no", f"{step.limit_s:g}") for step in steps]
    (join,) = (step for step in catalog.all_steps() if step.name in catalog.WITHOUT_UNIT)
    assert f"({join.limit_s:g} seconds)" in guide
    longest_s = sum(step.limit_s + units.MARGIN_S + 2 * units.STOP_S for step in steps)
    assert f"{longest_s / 60:.0f} minutes after" in " ".join(guide.split())


def imported_by(call: str) -> set[str]:
    """Return the modules that a call imports, those of the node core without their prefix."""
    program = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY / '.collections')!r})\n"
        "from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main\n"
        "from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import catalog\n"
        "sys.stdout = sys.stderr\n"
        f"{call}\n"
        "sys.__stdout__.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return {name.rpartition("._node.")[2] for name in done.stdout.split()}


def test_running_one_step_imports_no_other_step(tmp_path: pathlib.Path) -> None:
    """hpcnode starts once per step, and importing all steps takes longer than most steps take."""
    imported = imported_by(f"main(['boot', 'run', 'key', '--root', {str(tmp_path)!r}]); catalog.select_steps(['key'])")
    assert "boot.engine" in imported
    assert [name for name in imported if name.startswith("boot.steps.")] == ["boot.steps.key"]
    assert not {"cli.nccl", "cli.pins", "pinning", "setup.nccl.configure"} & imported


def test_no_step_imports_http_modules_before_it_runs(tmp_path: pathlib.Path) -> None:
    imported = imported_by(f"main(['boot', 'status', '--root', {str(tmp_path)!r}])")
    assert {f"boot.steps.{name}" for name in catalog.NAMES} <= imported
    assert not {"http.client", "urllib.request", "ssl", "email"} & imported


def test_ansible_packs_every_step_and_every_command() -> None:
    """AnsiballZ packs only files that are imported: a step that is only named would be missing on each node."""
    for path, folder in (("boot/catalog.py", "boot/steps"), ("cli/main.py", "cli")):
        tree = ast.parse((FOLDER.parents[1] / path).read_text(encoding="utf-8"))
        named = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if node.level
        }
        files = (FOLDER.parents[1] / folder).glob("*.py")
        on_disk = {file.stem for file in files if folder != "cli" or "\nCOMMAND = " in file.read_text(encoding="utf-8")}
        assert len(on_disk) > 5
        assert on_disk - {"__init__", "text"} <= named
