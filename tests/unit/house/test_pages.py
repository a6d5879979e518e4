# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists in the README and in guides are those of the code: plays, playbooks, roles, steps, permissions, commands."""

from __future__ import annotations

import json
import pathlib
import re
import textwrap
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import NAMES
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import services
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.units import BOOT_UNITS
from simulator.suite import SUITES

GUIDES = "docs/docsite/rst"
LONGEST_README = 200
PLACEHOLDER = "00000000-0000-0000-0000-000000000000"
# Daemons that the roles start, and that an upgrade of the collection does not change.
UNCHANGED = {"munge", "nfs-server"}
INSTALLED = "collections/ansible_collections/hpcai/azure/"


@pytest.fixture(scope="module")
def readme(repository: pathlib.Path) -> str:
    """The README."""
    return (repository / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def started(repository: pathlib.Path) -> str:
    """The guide for the start."""
    return (repository / GUIDES / "guide_getting_started.rst").read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """The part of the README below a heading."""
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def commands(text: str) -> list[str]:
    """The README's blocks that a reader pastes into a shell."""
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def table(text: str, first: str) -> dict[str, list[str]]:
    """The cells of the README's table with this head, by the names in their first cell."""
    rows = re.search(rf"^\| {first} \|.*\n\|[-:| ]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert rows
    found: dict[str, list[str]] = {}
    for row in rows[1].splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        found |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), cells[1:])
    return found


def plays(repository: pathlib.Path, playbook: str) -> list[dict[str, Any]]:
    """The plays of a playbook."""
    return list(yaml.safe_load((repository / "playbooks" / playbook).read_text(encoding="utf-8")))


def roles_in(repository: pathlib.Path, playbook: str) -> set[str]:
    """The roles that a playbook runs."""
    text = (repository / "playbooks" / playbook).read_text(encoding="utf-8")
    return set(re.findall(r"^ +name: hpcai\.azure\.(\w+)$", text, re.MULTILINE))


def test_the_readme_names_the_releases_of_the_tests_nodes_and_of_jupyterhub(
    readme: str, repository: pathlib.Path
) -> None:
    (nodes,) = re.findall(r"^\| nodes, in containers with systemd \| (.*?) \|", readme, re.MULTILINE)
    named = re.findall(r"(?:^|\. )(Debian \d+) with Slurm ([\d.]+):", nodes)
    # The patch release is only in the evidence.
    assert [f"{system}, Slurm {slurm}" for system, slurm in named] == [
        versions.rpartition(".")[0] for versions in SUITES.values()
    ]
    requirements = (repository / "roles/portal/files/requirements.txt").read_text(encoding="utf-8")
    (release,) = re.findall(r"^jupyterhub==(\d+\.\d+)", requirements, re.MULTILINE)
    assert f" JupyterHub {release}: " in nodes


def test_the_readme_is_short(readme: str) -> None:
    assert len(readme.splitlines()) < LONGEST_README


def test_the_readme_lists_every_playbook(repository: pathlib.Path, readme: str) -> None:
    assert sorted(table(readme, "playbook")) == sorted(path.stem for path in (repository / "playbooks").glob("*.yml"))


def test_the_readme_lists_every_role_in_its_phases(repository: pathlib.Path, readme: str) -> None:
    rows = table(readme, "role")
    assert sorted(rows) == sorted(path.name for path in (repository / "roles").iterdir() if path.is_dir())
    assert {name for name, cells in rows.items() if cells[1] == "x"} == roles_in(repository, "image.yml")
    assert {name for name, cells in rows.items() if cells[3] == "x"} == roles_in(repository, "site.yml")


def test_the_readme_names_this_version_and_the_tested_floors(repository: pathlib.Path, readme: str) -> None:
    version = yaml.safe_load((repository / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    core = yaml.safe_load((repository / "meta/runtime.yml").read_text(encoding="utf-8"))["requires_ansible"]
    assert f"Release {version} was tested" in readme
    assert f"'hpcai.azure:>={version}'" in readme
    assert f"'ansible-core{core}'" in readme
    requirements = (repository / "requirements.txt").read_text(encoding="utf-8")
    floors = re.findall(r"^(azure-[\w-]+)>=([\d.]+)", requirements, re.MULTILINE)
    assert floors
    assert not [name for name, floor in floors if f"{name} {floor.removesuffix('.0.0')}" not in readme]


def test_both_pages_start_a_repository_with_the_same_commands(readme: str, started: str) -> None:
    blocks = commands(section(readme, "Use it in your own repository"))
    assert len(blocks) == 3
    assert not [block for block in blocks if textwrap.indent(block, "    ") not in started]


def test_what_the_commands_copy_is_in_the_collection(repository: pathlib.Path, readme: str) -> None:
    copied = set(re.findall(rf"{INSTALLED}([\w./]+)", readme))
    assert copied == {"requirements.txt", "inventories/azure"}
    assert not [path for path in copied if not (repository / path).exists()]
    inventory = (repository / "inventories/azure/azure_vmss.yml").read_text(encoding="utf-8")
    assert inventory.count(PLACEHOLDER) == readme.count(PLACEHOLDER) == 1


def test_the_playbook_of_a_repository_is_complete(readme: str) -> None:
    written = re.search(r"cat >site\.yml <<'END'\n(.*?)^END$", readme, re.MULTILINE | re.DOTALL)
    assert written
    assert yaml.safe_load(written[1]) == [
        {"name": "Configure the cluster", "ansible.builtin.import_playbook": "hpcai.azure.site"}
    ]


def test_a_bake_shows_each_step_before_its_role(repository: pathlib.Path) -> None:
    """The number of a step is its place in the list, so the tasks must have the order of the list."""
    bake = plays(repository, "image.yml")[0]
    steps = re.findall(r"'([^']+)'", bake["vars"]["__hpcai_steps"])
    tasks = bake["tasks"]
    shown = [place for place, task in enumerate(tasks) if "__hpcai_step" in task.get("vars", {})]
    assert [tasks[place]["vars"]["__hpcai_step"] for place in shown] == steps
    following = [tasks[place + 1] for place in shown]
    assert all({"ansible.builtin.import_role", "ansible.builtin.include_role"} & set(task) for task in following)
    assert [tasks[place].get("when") for place in shown] == [task.get("when") for task in following]


def test_the_guide_lists_the_plays_of_site_yml(repository: pathlib.Path, started: str) -> None:
    listed = re.findall(r"^#\. \*\*(.+?)\.?\*\*", started, re.MULTILINE)
    assert listed == [play["name"] for play in plays(repository, "site.yml")]


def test_the_guide_lists_the_steps_of_the_boot_phase(repository: pathlib.Path) -> None:
    guide = (repository / GUIDES / "guide_boot.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^``(\w+)`` +(yes|no) +(\d+) ", guide, re.MULTILINE)
    assert listed == [(unit.name, "yes" if unit.blocking else "no", str(unit.limit_s)) for unit in BOOT_UNITS]


def test_the_guide_grants_what_the_inventory_needs(repository: pathlib.Path) -> None:
    guide = (repository / GUIDES / "guide_azure.rst").read_text(encoding="utf-8")
    block = re.search(r"code-block:: json\n\n((?:    .*\n)+)", guide)
    assert block
    source = (repository / "plugins/inventory/azure_vmss.py").read_text(encoding="utf-8")
    assert set(json.loads(block[1])["Actions"]) == set(re.findall(r"C\((Microsoft\.\w+/[\w/]+/read)\)", source))


def test_the_guide_to_air_gapped_installs_lists_every_folder_of_files(repository: pathlib.Path) -> None:
    specs = [
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in repository.glob("roles/*/meta/argument_specs.yml")
    ]
    options = [item for spec in specs for item in spec["argument_specs"]["main"].get("options", {}).items()]
    folders = {name for name, option in options if name.endswith("_files") and option.get("type") in ("path", "str")}
    assert len(folders) >= 6
    guide = (repository / GUIDES / "guide_air_gapped.rst").read_text(encoding="utf-8")
    release_files = guide.partition("\nRelease files\n---")[2]
    assert not [name for name in sorted(folders) if f"``{name}``" not in release_files]


def test_the_guide_to_upgrades_names_every_unit_besides_those_of_the_boot_phase(repository: pathlib.Path) -> None:
    templates = {path.name.partition(".")[0] for path in repository.glob("roles/*/templates/hpcai-*.j2")}
    texts = [path.read_text(encoding="utf-8") for path in repository.glob("roles/*/tasks/*.yml")]
    daemons = {name for text in texts for name in re.findall(r"hpcai\.azure\.daemon:\n +name: ([a-z-]+)\n", text)}
    known = {unit.rpartition(".")[0] for unit in services.UNITS if unit.startswith("hpcai-")}
    units = {unit.unit.removesuffix(".service") for unit in BOOT_UNITS}
    named = (templates | daemons | known) - units - UNCHANGED
    assert len(named) > 20
    guide = (repository / GUIDES / "guide_upgrading.rst").read_text(encoding="utf-8")
    changes = guide.partition("\nWhat changes on nodes\n---")[2].partition("\nTwo versions at a time\n---")[0]
    assert not [name for name in sorted(named) if f"``{name}``" not in changes]


def test_no_page_deletes_instances_without_draining(repository: pathlib.Path) -> None:
    pages = [repository / "README.md", *sorted((repository / GUIDES).glob("*.rst"))]
    assert len(pages) > 30
    assert not [page.name for page in pages if "az vmss delete-instances" in page.read_text(encoding="utf-8")]


def test_each_guide_is_in_the_index_once(repository: pathlib.Path) -> None:
    index = yaml.safe_load((repository / "docs/docsite/extra-docs.yml").read_text(encoding="utf-8"))
    listed = [page for part in index["sections"] for page in part["toctree"]]
    assert sorted(listed) == sorted(path.stem for path in (repository / GUIDES).glob("*.rst"))


def test_each_picture_has_a_text_and_a_page(repository: pathlib.Path, readme: str) -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in (repository / GUIDES).glob("*.rst")}
    images = [image for text in pages.values() for image in re.split(r"\n *\.\. image:: ", text)[1:]]
    files = sorted((repository / "docs/images").iterdir())
    pictures = {path.name: path.read_text(encoding="utf-8") for path in files if path.suffix == ".svg"}
    assert len(pictures) >= 5
    assert {path.suffix for path in files} == {".svg", ".png"}
    assert {image.split()[0] for image in images} == {f"../../images/{path.name}" for path in files}
    assert not [image.split()[0] for image in images if not re.match(r"\S+\n +:alt: \S", image)]
    assert "](docs/images/overview.svg)" in readme
    assert "](docs/images/console.png)" in readme
    texts = re.compile(r'role="img".*<title id="title">.+</title>.*<desc id="desc">.+</desc>', re.DOTALL)
    for name, picture in pictures.items():
        assert texts.search(picture), name
        # A background of its own: pages are light or dark.
        assert re.search(r'<rect x="1" y="1" width="\d+" height="\d+" rx="18" fill="#fbfcfe"', picture), name


def test_the_guide_lists_the_commands_of_hpcnode(repository: pathlib.Path) -> None:
    guide = (repository / GUIDES / "guide_hpcnode.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^``(\w+)`` {2,}", guide, re.MULTILINE)
    assert sorted(listed) == sorted(NAMES)
