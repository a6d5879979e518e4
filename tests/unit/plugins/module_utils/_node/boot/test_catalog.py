# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The catalogue of the boot phase: each file a step, in its order, and cheap to import."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import catalog

REPOSITORY = pathlib.Path(__file__).resolve().parents[6]
FOLDER = REPOSITORY / "plugins/module_utils/_node/boot/steps"
ORDER = ("instance", "key", "gpu", "fabric", "scratch", "directories", "clocks", "nccl", "join")
BLOCKING = {"instance", "key", "gpu", "fabric", "scratch", "directories", "join"}


def test_each_file_is_a_step_of_the_catalogue() -> None:
    names = {file.stem for file in FOLDER.glob("*.py")} - {"__init__"}
    assert names
    assert [step.name for step in catalog.STEPS] == [name for name in ORDER if name in names]


def test_a_step_that_only_warns_does_not_block() -> None:
    assert {step.name for step in catalog.STEPS if step.blocking} <= BLOCKING
    assert not {step.name for step in catalog.STEPS if not step.blocking} & (BLOCKING - {"join"})


@pytest.mark.parametrize("step", catalog.STEPS, ids=lambda step: step.name)
def test_a_step_has_a_title_and_a_limit(step: catalog.Step) -> None:
    assert step.title
    assert 0 < step.limit_s <= 570


def test_without_names_all_are_chosen_but_those_of_slurmds_own_start() -> None:
    chosen = [step.name for step in catalog.chosen()]
    assert chosen == [step.name for step in catalog.STEPS if step.name != "join"]
    assert catalog.chosen([]) == catalog.chosen()


def test_names_are_chosen_in_the_order_of_the_boot() -> None:
    names = [step.name for step in catalog.STEPS]
    assert [step.name for step in catalog.chosen(names[::-1])] == names


def test_a_name_that_is_no_step_is_refused_with_those_that_are() -> None:
    with pytest.raises(catalog.NoSuchStep, match=r"there is no step scrach: there are .*clocks"):
        catalog.chosen(["clocks", "scrach"])


def test_the_catalogue_imports_nothing_that_speaks_http() -> None:
    """It is imported at each start of hpcnode, and what speaks HTTP takes longer than all else."""
    program = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY / '.collections')!r})\n"
        "import ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main\n"
        "sys.stdout.write(' '.join({'http.client', 'urllib.request', 'ssl', 'email'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
