# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ordinary users run jobs in containers, before and after a reboot.

enroot and pyxis are stand-ins here. Each node makes the image of its own programs and a different os-release file.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

IMAGE = "/var/tmp/hpcai-test.sqsh"
MAKE_IMAGE = Path(__file__).resolve().parents[3] / "tests/site/make_image.sh"
SHOW = "sh -c 'cat /etc/os-release; readlink /proc/self/ns/mnt'"
JOB = "--mpi=none --ntasks=1 --mem=100"
FAKE_SRUN = """\
#!/bin/sh
for word; do
    shift
    case $word in --container*) ;; *) set -- "$@" "$word" ;; esac
done
exec /usr/bin/srun "$@"
"""
RECORD, LINK = "/var/lib/hpcai/pyxis.json", "/usr/lib/hpcai/pyxis/spank_pyxis.so"


@pytest.fixture(scope="module", autouse=True)
def image(computes: list[Host]) -> Iterator[None]:
    """An image on each compute node."""
    program = base64.b64encode(MAKE_IMAGE.read_bytes()).decode()
    for host in computes:
        host.check_output("echo %s | base64 --decode | bash -s %s", program, IMAGE)
    yield
    for host in computes:
        host.check_output("rm -f %s", IMAGE)


def run_module(name: str, host: Host, options: str, inventory_source: Path) -> str:
    """Run a module on a node, and return its output."""
    program = str(Path(sys.executable).parent / "ansible")
    command = [
        program,
        host.check_output("hostname"),
        "-i",
        str(inventory_source),
        "--become",
        "-m",
        name,
        "-a",
        options,
    ]
    env = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_container(user: Any, where: str, options: str = "") -> str:
    """What a job prints in a container on a node."""
    return str(user.srun(f"{JOB} --nodelist={where} --container-image={IMAGE} {options}", SHOW))


def test_two_users_run_in_containers_twice_and_after_a_reboot(
    computes: list[Host], alice: Any, bob: Any, node: Callable[[str], Any], eventually: Callable[..., float]
) -> None:
    """The second user's jobs fail if folders of the first user are in the way."""
    rebooted = node("0")
    outside = alice.srun(f"{JOB} --nodelist=compute-0", SHOW)
    assert "ID=debian" in outside.splitlines()
    for user in (alice, bob, alice, bob):
        inside = in_container(user, "compute-0")
        assert "ID=hpcai-image" in inside.splitlines()
        assert inside.splitlines()[-1] != outside.splitlines()[-1]
    # A container has the boot id of its host.
    started = "systemctl show --property=UserspaceTimestamp --value"
    boot = rebooted.sh(started).strip()
    rebooted.sh(
        "mkdir -p /scratch/enroot/data/user-4001/pyxis_99999_99999.0/usr && "
        "chown -R 4001:4001 /scratch/enroot/data/user-4001/pyxis_99999_99999.0"
    )
    rebooted.sh("nohup sh -c 'sleep 1; systemctl reboot' > /dev/null 2>&1 &")
    eventually(lambda: rebooted.sh(started, check=False).strip() not in ("", boot), 120, lambda: "it did not reboot")
    eventually(lambda: bool(rebooted.state() == "idle"), 120, rebooted.state)
    for user in (bob, alice):
        assert "ID=hpcai-image" in in_container(user, "compute-0")
    # Containers of dead jobs and of finished jobs are gone.
    assert rebooted.sh("ls -A /scratch/enroot/data/user-*/").replace("\n", " ").count("pyxis_") == 0
    assert rebooted.verdicts()["containers"] == "pass"


def test_no_folder_is_world_writable_without_the_sticky_bit(computes: list[Host]) -> None:
    for host in computes:
        for path in ("enroot/data", "enroot/cache", "enroot/images", "pyxis"):
            assert oct(host.file(f"/scratch/{path}").mode) == "0o755", path
        assert oct(host.file("/run/enroot").mode) == "0o755"
        assert oct(host.file("/scratch/enroot/tmp").mode) == "0o1777"
        shown = host.check_output(
            "find /scratch/enroot /scratch/pyxis /run/enroot -xdev -type d -perm -0002 ! -perm -1000"
        )
        assert shown == ""


def test_containers_have_the_names_of_slurm_nodes(alice: Any) -> None:
    """Ranks resolve MASTER_ADDR there. The container has the node's own file, which the prolog wrote before."""
    words = f"--mpi=none --nodes=2 --ntasks-per-node=1 --mem=100 --container-image={IMAGE}"
    lines = alice.srun(words, "cat /etc/hosts").splitlines()
    addresses = [line.split()[0] for line in lines if line.split()[1:] == ["compute-0"]]
    assert len(addresses) == 2
    assert len(set(addresses)) == 1


def test_a_missing_image_is_reported_and_drains_no_node(controller: Host, alice: Any) -> None:
    done = alice.run(f"srun --time=2 {JOB} --container-image=/nonexistent.sqsh true")
    assert done.rc != 0
    assert "No such file or directory: /nonexistent.sqsh" in done.stderr
    assert controller.check_output("sinfo --noheader --states=drain,drained,draining --format=%%N") == ""


def test_a_named_container_is_removed_with_its_job(computes: list[Host], alice: Any) -> None:
    in_container(alice, "compute-0", "--container-name=mine")
    (host,) = [host for host in computes if host.check_output("hostname") == "compute000000"]
    listed = host.run("ls /scratch/enroot/data/user-4001").stdout
    assert "mine" not in listed


def test_containers_check_detects_a_step_that_runs_on_the_host(alice: Any, computes: list[Host]) -> None:
    assert "2 nodes ran Image of the tests in a container" in alice.check_output(
        f"hpcnode containers check {IMAGE} --nodes 2"
    )
    # This srun drops the container options, like a node on which plugstack.conf is missing.
    alice.check_output(f"mkdir -p ~/fake && printf %s {shlex.quote(FAKE_SRUN)} > ~/fake/srun && chmod +x ~/fake/srun")
    done = alice.run(f"PATH=$HOME/fake:$PATH hpcnode containers check {IMAGE}")
    assert done.rc == 1
    assert "the step ran on the host, not in the container" in done.stdout + done.stderr


def test_pyxis_is_rebuilt_only_if_slurms_version_differs(inventory_source: Path, computes: list[Host]) -> None:
    host = computes[0]
    before = json.loads(host.file(RECORD).content_string)
    assert before["slurm"] in host.check_output("scontrol --version")
    host.check_output('sed -i \'s/"slurm": "[^"]*"/"slurm": "21.08.5"/\' %s', RECORD)
    enroot, directories = (
        json.loads(host.file(f"/etc/hpcai/{name}.json").content_string) for name in ("containers", "directories")
    )
    enroot.pop("schema", None)
    folders = [{name: folder[name] for name in ("path", "mode")} for folder in directories["folders"]["containers"]]
    pyxis = {"source": "/usr/share/hpcai/pyxis/pyxis-0.24.0.tar.gz", "version": "0.24.0"}
    options = json.dumps({"enroot": enroot, "pyxis": pyxis, "folders": folders})
    first = run_module("hpcai.azure.container_node", host, options, inventory_source)
    assert first.count('"changed": true') == 1
    assert f'"build {LINK}: it was built for Slurm 21.08.5, not ' in first
    assert json.loads(host.file(RECORD).content_string)["slurm"] == before["slurm"]
    assert '"changed": true' not in run_module("hpcai.azure.container_node", host, options, inventory_source)
    assert host.file(LINK).linked_to.endswith(f"/{before['slurm']}-0.24.0/spank_pyxis.so")
