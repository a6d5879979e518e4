# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role node_tools on real nodes: what is lost or changed comes back, and where the wheel comes from."""

from __future__ import annotations

import functools
import hashlib
import http.server
import shutil
import threading
from pathlib import Path

import pytest
import yaml

from simulated.cluster import REPOSITORY, Cluster, Recap

COMPUTES = {"compute000000": "10.79.0.5", "compute000003": "10.79.0.6"}
SECOND = "10.79.0.6"
# No index answers, and nothing is left from earlier runs.
NO_INDEX = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": "/dev/null"}


class Role:
    """The role by itself, on both compute nodes."""

    def __init__(self, cluster: Cluster, inventory: Path, folder: Path) -> None:
        self.cluster, self.inventory, self.folder = cluster, inventory, folder
        play = {"hosts": "hpcai_compute", "gather_subset": ["min"], "become": True, "roles": ["hpcai.azure.node_tools"]}
        (folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")

    def run(self, *arguments: str, **environment: str) -> Recap:
        """Run it with a cache of its own."""
        environment["XDG_CACHE_HOME"] = str(self.folder / "cache")
        play = self.folder / "play.yml"
        return self.cluster.playbook(play, self.inventory, *arguments, cwd=REPOSITORY, **environment)

    def changed(self, *arguments: str, **environment: str) -> dict[str, int]:
        """Run it with success; the number of changes by host."""
        run = self.run(*arguments, **environment)
        assert run.rc == 0, run.output
        return {name: run.hosts[name]["changed"] for name in COMPUTES}


@pytest.fixture(scope="module")
def wheel(cluster: Cluster, controller: str, inventory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as the default way fetches it: lost on the second node alone, and brought back."""
    role = Role(cluster, inventory, tmp_path_factory.mktemp("fetched"))
    assert set(role.changed().values()) == {0}
    cluster.ssh(SECOND, "sudo rm /usr/lib/hpcai/site/pynvml.py")
    changed = role.changed()
    assert changed["compute000000"] <= 1, "only the fetching, which is done once, may count for the first node"
    assert changed["compute000003"] >= 2
    assert set(role.changed().values()) == {0}
    (found,) = (role.folder / "cache/hpcai-azure/wheels").iterdir()
    return found


@pytest.fixture
def role(cluster: Cluster, inventory: Path, wheel: Path, tmp_path: Path) -> Role:
    """The role, on nodes that have the wheel, and with nothing fetched."""
    assert imports(cluster, SECOND) == "/usr/lib/hpcai/site/pynvml.py"
    return Role(cluster, inventory, tmp_path)


def imports(cluster: Cluster, address: str) -> str:
    """Where the node imports nvidia-ml-py from."""
    look = "import sys; sys.path.insert(0, '/usr/lib/hpcai/site'); import pynvml; print(pynvml.__file__)"
    return cluster.ssh(address, f'python3 -I -c "{look}"', check=False).strip()


def test_an_edited_file_is_restored_on_that_node_alone(role: Role) -> None:
    role.cluster.ssh(SECOND, "echo 'raise SystemExit(9)' | sudo tee -a /usr/lib/hpcai/lib/hpcai_node/cli/main.py")
    assert role.changed("--check") == {"compute000000": 0, "compute000003": 1}
    assert role.changed() == {"compute000000": 0, "compute000003": 1}
    assert role.cluster.ssh(SECOND, "hpcnode --version").startswith("hpcnode ")


def test_the_installed_hpcnode_is_called_where_its_code_is_this_one_and_else_the_module_runs(role: Role) -> None:
    """The launcher, which is no part of that code, leaves a trace."""
    task = {"hpcai.azure.node_health_info": {"tier": "periodic", "only": ["vm_size"]}}
    play = [{"hosts": "compute000003", "gather_facts": False, "become": True, "tasks": [task]}]
    file = role.folder / "health.yml"
    file.write_text(yaml.safe_dump(play), encoding="utf-8")
    role.cluster.ssh(SECOND, """sudo sed -i '2i open("/run/called", "w").close()' /usr/bin/hpcnode""")
    assert role.cluster.playbook(file, role.inventory).rc == 0
    assert role.cluster.ssh(SECOND, "sudo rm /run/called && echo called").strip() == "called"
    role.cluster.ssh(SECOND, "echo | sudo tee -a /usr/lib/hpcai/lib/hpcai_node/health/engine.py")
    assert role.cluster.playbook(file, role.inventory).rc == 0
    assert role.cluster.ssh(SECOND, "test -e /run/called || echo not called").strip() == "not called"
    assert role.changed() == {"compute000000": 0, "compute000003": 1}


def test_a_wheel_lost_on_one_node_is_fetched_for_that_node(role: Role) -> None:
    assert role.cluster.ssh(SECOND, "ls /usr/lib/hpcai/wheels") == ""


def test_without_an_index_the_run_says_what_to_do_and_a_file_serves(role: Role, wheel: Path) -> None:
    own = shutil.copy(wheel, role.folder / "own.whl")
    role.cluster.ssh(SECOND, "sudo rm /usr/lib/hpcai/site/pynvml.py")
    run = role.run(**NO_INDEX)
    assert run.rc != 0
    assert "Set node_tools_nvml_wheel to a file or to a URL" in " ".join(run.output.split())
    assert [run.hosts[name]["failed"] for name in COMPUTES] == [0, 1]
    assert role.changed("-e", "node_tools_nvml_install=false", **NO_INDEX) == {"compute000000": 0, "compute000003": 0}
    role.changed("-e", f"node_tools_nvml_wheel={own}", **NO_INDEX)
    assert imports(role.cluster, SECOND) == "/usr/lib/hpcai/site/pynvml.py"


def test_a_mirror_serves_too(role: Role, wheel: Path) -> None:
    folder = role.folder / "mirror"
    folder.mkdir()
    shutil.copy(wheel, folder)
    role.cluster.ssh(SECOND, "sudo rm /usr/lib/hpcai/site/pynvml.py")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{wheel.name}"
        role.changed("-e", f"node_tools_nvml_wheel={url}", **NO_INDEX)
        server.shutdown()
    assert imports(role.cluster, SECOND) == "/usr/lib/hpcai/site/pynvml.py"


def test_a_wheel_that_is_not_the_pinned_one_is_refused(role: Role, wheel: Path) -> None:
    wrong = role.folder / "wrong.whl"
    wrong.write_bytes(wheel.read_bytes() + b"more")
    role.cluster.ssh(SECOND, "sudo rm /usr/lib/hpcai/site/pynvml.py")
    run = role.run("-e", f"node_tools_nvml_wheel={wrong}")
    assert run.rc != 0
    assert hashlib.sha256(wrong.read_bytes()).hexdigest() in run.output
    assert imports(role.cluster, SECOND) == ""
    role.changed()
    assert imports(role.cluster, SECOND) == "/usr/lib/hpcai/site/pynvml.py"
