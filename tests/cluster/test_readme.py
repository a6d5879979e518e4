# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The README's commands for an own repository, run as they are there, for machines that exist already.

Different from the README: the archive comes from this clone, `az` is a stand-in, the inventory names the simulated
resource group and cluster, and the nodes are containers, which need settings. The tests depend on their order.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from simulated.cluster import REPOSITORY, RESOURCE_GROUP
from simulated.own_cluster import simulated

from .test_tutorial import HERE, Reader
from .tutorial_page import Block

NAME, PORT, NETWORK = "readme", 8514, "10.60.0.0/24"
TITLE = "Use it in your own repository"
SECTION = (REPOSITORY / "README.md").read_text(encoding="utf-8").partition(f"\n## {TITLE}\n")[2].partition("\n## ")[0]
START, SUBSCRIPTION, RUN = re.findall(r"^```sh\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
INVENTORY = "my-cluster/inventories/azure"


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """A reader with a controller, a login node and two compute nodes. The folder is short for ssh's control sockets."""
    with (
        tempfile.TemporaryDirectory(prefix="hpcai-readme-", dir="/tmp") as name,
        simulated(NAME, PORT, NETWORK, "login", HPCAI_ENROOT_FILES="") as cluster,
    ):
        cluster.set_capacity(2)
        yield Reader(Path(name), cluster)


def run(reader: Reader, text: str) -> str:
    """Run a block in the shell of the reader."""
    return reader.run(Block(TITLE, "sh", HERE, text))


def test_the_readme_names_what_is_run_here() -> None:
    assert "`training`" in SECTION
    assert "ansible-playbook site.yml" in RUN
    assert "srun --nodes=2 hostname" in RUN


def test_the_commands_make_a_repository(reader: Reader) -> None:
    run(reader, START)
    assert (reader.folder / INVENTORY / "azure_vmss.yml").is_file()


def test_the_commands_write_the_subscription(reader: Reader) -> None:
    run(reader, SUBSCRIPTION)
    path = reader.folder / INVENTORY / "azure_vmss.yml"
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert written["subscription_ids"] == ["00000000-0000-4000-8000-000000000001"]
    assert (written["resource_groups"], written["tags"]) == (["training"], {"hpcai_cluster": "training"})


def test_the_playbook_configures_the_machines(reader: Reader) -> None:
    path = reader.folder / INVENTORY / "azure_vmss.yml"
    text = path.read_text(encoding="utf-8").replace("  - training\n", f"  - {RESOURCE_GROUP}\n")
    path.write_text(text.replace("hpcai_cluster: training\n", "hpcai_cluster: sim\n"), encoding="utf-8")
    for group in ("all", "azure_hosts"):
        source = REPOSITORY / f"inventories/simulated/group_vars/{group}.yml"
        content = yaml.safe_load(source.read_text(encoding="utf-8"))
        kept = {key: value for key, value in content.items() if not key.startswith("hpcai_key_")}
        # Read before ssh.yml, which the README's commands have copied.
        target = reader.folder / INVENTORY / "group_vars" / group / "a_simulator.yml"
        target.parent.mkdir(exist_ok=True)
        target.write_text(yaml.safe_dump(kept), encoding="utf-8")
    shown = run(reader, RUN)
    assert all(f"@hpcai_{name}:" in shown for name in ("controller", "login", "compute")), shown
    assert {*shown.partition(" | CHANGED | rc=0 >>\n")[2].split()} == {"compute000000", "compute000002"}, shown


def test_sinfo_shows_the_nodes_that_the_set_may_get_later(reader: Reader) -> None:
    assert " down~ compute-" in reader.cluster.ssh(reader.address_of("login"), "sinfo")


def test_a_second_run_changes_nothing(reader: Reader) -> None:
    changes = re.findall(r"^\S+ +: ok=\d+ +changed=(\d+)", run(reader, RUN), re.MULTILINE)
    assert len(changes) >= 4
    assert set(changes) == {"0"}
