# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role image ends with an image version that says what was baked, or refuses before the machine loses its keys."""

from __future__ import annotations

import base64
import json
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.inventory.reading import Finished, ansible
from simulator.testing import Simulator, running

from .azure import add_gallery, version_id, write_requests

PLAYBOOK = Path(__file__).parents[3] / "playbooks/image.yml"
FACT = {
    "schema": 1,
    "version": "0.2.0",
    "parts": {"limits": "abc"},
    "base": {"os": "Ubuntu 22.04"},
    "components": {"rdma": "3.2.1", "driver": "580.126.16"},
}


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A machine to capture, and an empty gallery."""
    with running({"virtual_machines": [{"name": "bake"}]}) as simulated:
        add_gallery(simulated)
        yield simulated


def run_role(simulator: Simulator, folder: Path, tasks_from: str, *flags: str, **variables: Any) -> Finished:
    """Run an entry point of the role for this machine, which is reached locally."""
    tasks = [{"ansible.builtin.import_role": {"name": "hpcai.azure.image", "tasks_from": tasks_from}}]
    return run_plays(simulator, folder, [{"gather_facts": False, "tasks": tasks}], *flags, **variables)


def run_plays(
    simulator: Simulator, folder: Path, plays: list[dict[str, Any]], *flags: str, **variables: Any
) -> Finished:
    """Run plays for this machine, which is reached locally."""
    machine = simulator.instance("bake")
    given = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": "python3",
        "azure_id": machine.id,
        "azure_vm_id": machine.vm_id,
        "image_version": version_id(simulator),
        "image_generalise": True,
        **variables,
    }
    content = yaml.safe_dump([{**play, "hosts": "bake"} for play in plays])
    (folder / "play.yml").write_text(content, encoding="utf-8")
    environment = {
        "ANSIBLE_NOCOLOR": "1",
        "HPCAI_AZURE_ENDPOINT": simulator.endpoint,
        "HPCAI_AZURE_TOKEN": simulator.token,
    }
    words = ["-i", "bake,", "-e", json.dumps(given), *flags, "play.yml"]
    return ansible("ansible-playbook", *words, cwd=folder, env=environment)


def test_the_version_has_tags_about_its_content(simulator: Simulator, tmp_path: Path) -> None:
    content = base64.b64encode(json.dumps(FACT).encode()).decode()

    done = run_role(
        simulator,
        tmp_path,
        "capture",
        __image_fact_file={"content": content},
        image_version_regions=["eastus"],
        image_version_tags={"team": "ml", "hpcai_base": "ours"},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    made = simulator.model.galleries.version(version_id(simulator))
    assert made is not None
    digest = made.tags.pop("hpcai_settings")
    assert len(digest) == 64
    assert made.tags == {
        "hpcai_base": "ours",
        "hpcai_collection": "0.2.0",
        "hpcai_components": "driver 580.126.16, rdma 3.2.1",
        "hpcai_source_vm_id": simulator.instance("bake").vm_id,
        "team": "ml",
    }
    assert [region["name"] for region in made.regions] == ["southcentralus", "eastus"]
    assert f"ansible-playbook hpcai.azure.roll -e image={version_id(simulator)}" in done.stdout


@pytest.mark.thorough
def test_the_playbook_reads_the_content_before_it_generalises_and_captures(
    simulator: Simulator, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    answer = {
        "changed": True,
        "content": base64.b64encode(json.dumps(FACT).encode()).decode(),
        "encoding": "base64",
        "removed": ["/etc/munge/munge.key"],
        "emptied": [],
        "left_alone": [],
    }
    # It runs no module, so this machine keeps its keys. With pipelining, a module comes from standard input.
    python = tmp_path / "python"
    python.write_text(
        f"""#!/bin/sh
cat "$@" | grep -o '"_ansible_module_name": "[^"]*"' >> {asked}
printf '%s' {shlex.quote(json.dumps(answer))}
""",
        encoding="utf-8",
    )
    python.chmod(stat.S_IRWXU)
    *_bake, generalise, capture = yaml.safe_load(PLAYBOOK.read_text(encoding="utf-8"))

    done = run_plays(simulator, tmp_path, [generalise, capture], ansible_python_interpreter=str(python))

    assert done.returncode == 0, done.stdout + done.stderr
    modules = [line.split('"')[3].rpartition(".")[2] for line in asked.read_text(encoding="utf-8").splitlines()]
    assert modules == ["slurp", "image_generalise"]
    made = simulator.model.galleries.version(version_id(simulator))
    assert made is not None
    assert made.provisioning_state == "Succeeded"
    assert made.tags["hpcai_base"] == "Ubuntu 22.04"
    assert made.tags["hpcai_components"] == "driver 580.126.16, rdma 3.2.1"
    assert "deallocate" in "".join(write_requests(simulator))


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("tasks_from", "variables", "words"),
    [
        ("generalise", {"azure_vm_id": ""}, "set image_vm to the resource id"),
        ("capture", {"image_generalise": False}, "image_version needs image_generalise=true"),
    ],
)
def test_a_machine_that_cannot_be_captured_keeps_its_keys(
    simulator: Simulator, tmp_path: Path, tasks_from: str, variables: dict[str, Any], words: str
) -> None:
    # In check mode, so that an error of this test cannot remove the keys of this machine.
    flags = ["--check"] if tasks_from == "generalise" else []

    done = run_role(simulator, tmp_path, tasks_from, *flags, **variables)

    assert done.returncode != 0
    assert words in " ".join(done.stdout.split())
    assert "Remove everything that identifies the machine" not in done.stdout
    assert write_requests(simulator) == []
