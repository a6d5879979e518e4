# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tutorial, run from its page: each code block as a reader would run it, in order, on a simulated subscription.

What is different from the page is in the page's last section. The tests depend on their order.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from stand_ins.blob.azurite import Azurite, NotHere, installed
from stand_ins.blob.certificate import Certificate, certificate_for
from stand_ins.blob.release import pack
from stand_ins.blob.sas import ACCOUNT, account_sas

from simulated import frameworks
from simulated.cluster import REPOSITORY, Cluster
from simulated.node import admin, send
from simulated.own_cluster import simulated

from .tutorial_page import Block, blocks_of

NAME, PORT, NETWORK, GATEWAY = "tutorial", 8502, "10.64.0.0/22", "10.64.0.1"
PAGE = REPOSITORY / "docs/docsite/rst/guide_tutorial.rst"
BLOCKS = blocks_of(PAGE)
SECTIONS = list(dict.fromkeys(block.section for block in BLOCKS))
HERE, LOGIN, OUTPUT = "On your machine", "On the login node", "On the login node, to show the output of a job"
ON_LOGIN = ", on the login node"
GALAXY, BLOB_HOST = "'hpcai.azure:>=0.2.0'", "trainingdata0042.blob.core.windows.net"
HOST = f"{ACCOUNT}.blob.core.windows.net"
TRUSTED = "/usr/local/share/ca-certificates/tutorial-account.crt"
INSTALL = "python3 -m venv env\nenv/bin/pip install torch numpy\n"
BLOCK_S = 900


class Reader:
    """A person who works through the page: a home folder, a shell that keeps its state, and a user on the cluster."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.cluster, self.folder = cluster, folder
        self.failed = ""
        self.archive = _build(folder)
        self.home = _home(folder, cluster)
        self.state = folder / "state.sh"
        self.state.write_text(f"cd {shlex.quote(str(folder))}\n", encoding="utf-8")
        self.blobs: Azurite | None = None
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{_programs(folder)}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "1",
            "HPCAI_AZURE_ENDPOINT": cluster.endpoint,
            "HPCAI_AZURE_TOKEN": "simulated-token",
            "HPCAI_SIMULATOR_STATE": str(cluster.state),
            "HPCAI_ENROOT_FILES": "",
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_proxy")},
        }

    def run(self, block: Block) -> str:
        """Run or write a block where its caption says, and return its output."""
        text = block.text
        if block.caption == HERE:
            return self._here(text.replace(GALAXY, f"--offline {shlex.quote(str(self.archive))}"))
        if block.caption in (LOGIN, OUTPUT):
            # Without a shared home, a job writes its output on its first node.
            return self._on_cluster(self.first_node if block.caption == OUTPUT else self.address_of("login-1"), text)
        if block.caption.endswith(ON_LOGIN):
            name = shlex.quote(block.caption.removesuffix(ON_LOGIN))
            write = f"sudo -i -u alice tee {name} >/dev/null"
            send(self.cluster, self.address_of("login-1"), self._on_nodes(text), write)
            return ""
        assert block.language == "yaml", block
        content = yaml.safe_load(text)
        if block.caption == "stack.yml":
            content["hpcai_stack"]["shared_home"] = {"source": "none"}
            text = yaml.safe_dump(content)
        (self.folder / "my-cluster" / block.caption).write_text(text, encoding="utf-8")
        return ""

    def before(self, section: str) -> None:
        """Do what the last section of the page says, before a section."""
        if section == "Configure the cluster":
            self._simulated_settings()
        if section == "Put data into Blob storage":
            self._account()
        if section == "Train":
            self._frameworks()

    def _here(self, text: str) -> str:
        """Run commands on this machine in a shell that continues where the last one ended."""
        state = shlex.quote(str(self.state))
        script = f"set -eu\n. {state}\nset -o pipefail\n{text}\n{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} >{state}\n"
        done = subprocess.run(
            ["bash", "-c", script],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BLOCK_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}"
        return done.stdout

    def _on_cluster(self, address: str, text: str) -> str:
        """Run commands as alice, in her home."""
        script = f"set -eu; cd ~; export HPCAI_BLOB_SAS={shlex.quote(account_sas())}\n".encode() + self._on_nodes(text)
        done = subprocess.run(
            [*self._ssh(), f"azureuser@{address}", "sudo -i -u alice bash -s"],
            input=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BLOCK_S,
            check=False,
        )
        output = done.stdout.decode("utf-8", "replace")
        assert done.returncode == 0, f"{text}\n{output}"
        return output

    def _on_nodes(self, text: str) -> bytes:
        port = f":{self.blobs.port}" if self.blobs else ""
        text = (
            text.replace(BLOB_HOST, HOST + port).replace("$PWD/env/bin/python", frameworks.PYTHON).replace(INSTALL, "")
        )
        return text.encode()

    def _ssh(self) -> list[str]:
        options = ("UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", "LogLevel=ERROR")
        return ["ssh", "-F", "none", "-i", str(self.cluster.state / "id_ed25519"), *_each("-o", options)]

    def address_of(self, name: str) -> str:
        """The private address of a machine, by the end of its name."""
        state = admin(self.cluster, "get", "state")
        (found,) = (one["private_ipv4"] for one in state["instances"] if one["name"].endswith(name))
        return str(found)

    @property
    def first_node(self) -> str:
        """The address of the first compute node."""
        return self.address_of("compute_0")

    def machines(self) -> list[str]:
        """The names of all machines."""
        return sorted(one["name"] for one in admin(self.cluster, "get", "state")["instances"])

    def _simulated_settings(self) -> None:
        source, target = (
            REPOSITORY / "inventories/simulated/group_vars",
            self.folder / "my-cluster/inventory/group_vars",
        )
        for group in ("all", "azure_hosts"):
            content = yaml.safe_load((source / f"{group}.yml").read_text(encoding="utf-8"))
            kept = {key: value for key, value in content.items() if not key.startswith("hpcai_key_")}
            (target / group / "a_simulator.yml").write_text(yaml.safe_dump(kept), encoding="utf-8")

    def _account(self) -> None:
        """Start the storage account, and let the nodes find and trust it."""
        certificate: Certificate = certificate_for(HOST, GATEWAY, self.folder)
        self.blobs = Azurite(installed(), self.folder / "azurite", GATEWAY, certificate)
        self.blobs.container("data")
        self.environment |= {
            "SIMULATED_ACCOUNT": self.blobs.url,
            "SIMULATED_ACCOUNT_SAS": account_sas(),
            "SIMULATED_ACCOUNT_CERTIFICATE": str(certificate.public),
        }
        for one in ("compute_0", "compute_2"):
            address = self.address_of(one)
            send(self.cluster, address, certificate.public.read_bytes(), f"sudo tee {TRUSTED} >/dev/null")
            known = f"update-ca-certificates; echo {GATEWAY} {HOST} >>/etc/hosts"
            self.cluster.ssh(address, f"sudo sh -c {shlex.quote(known)}")

    def _frameworks(self) -> None:
        """Install PyTorch on the nodes, or skip the section."""
        packages = frameworks.packages()
        for one in ("compute_0", "compute_2"):
            frameworks.install(self.cluster, self.address_of(one), packages)

    def end(self) -> None:
        """Stop the storage account."""
        if self.blobs:
            self.blobs.end()


def _each(option: str, values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _build(folder: Path) -> Path:
    words = ["ansible-galaxy", "collection", "build", str(REPOSITORY), "--output-path", str(folder)]
    words[0] = str(Path(sys.executable).parent / words[0])
    subprocess.run(words, check=True, capture_output=True, timeout=300)
    (archive,) = folder.glob("hpcai-azure-*.tar.gz")
    return archive


def _home(folder: Path, cluster: Cluster) -> Path:
    """A home with the ssh key that the page requires."""
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    for end in ("", ".pub"):
        key = home / ".ssh" / f"id_ed25519{end}"
        key.write_bytes((cluster.state / f"id_ed25519{end}").read_bytes())
        key.chmod(0o600)
    settings = ["StrictHostKeyChecking accept-new"]
    settings += [f"IdentityFile {home}/.ssh/id_ed25519", f"UserKnownHostsFile {home}/.ssh/known_hosts"]
    (home / ".ssh/config").write_text("\n".join([*settings, ""]), encoding="utf-8")
    return home


def _programs(folder: Path) -> Path:
    """A folder with az, and with an ssh for which HOME is the reader's home. The real one reads it from passwd."""
    programs = folder / "programs"
    programs.mkdir()
    texts = {
        "az": f"""\
            #!/bin/sh
            PYTHONPATH={REPOSITORY}/tests exec {sys.executable} -m stand_ins.azure_cli "$@"
            """,
        "ssh": """\
            #!/bin/bash
            exec /usr/bin/ssh -F "$HOME/.ssh/config" "${@//=\\~\\//=$HOME/}"
            """,
    }
    for name, text in texts.items():
        (programs / name).write_text(textwrap.dedent(text), encoding="utf-8")
        (programs / name).chmod(0o755)
    return programs


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """A reader with an empty simulated subscription. In a longer folder, ssh could not make its control sockets."""
    with (
        tempfile.TemporaryDirectory(prefix="hpcai-tutorial-", dir="/tmp") as name,
        simulated(NAME, PORT, NETWORK, "empty", HPCAI_ENROOT_FILES="") as cluster,
    ):
        folder = Path(name)
        one = Reader(folder, cluster)
        try:
            one.environment["HPCAI_AZCOPY_FILES"] = str(pack(installed(), folder / "azcopy").parent)
        except NotHere as error:
            pytest.skip(str(error))
        yield one
        one.end()


def _nodes(reader: Reader, _output: str) -> None:
    shown = reader.cluster.ssh(reader.address_of("controller"), "sinfo --noheader --Node --format=%N:%T")
    assert {"compute-0:idle", "compute-2:idle"} <= set(shown.split()), shown


def _staged(_reader: Reader, output: str) -> None:
    assert len(re.findall(r"^compute\d+ has 4 files$", output, re.MULTILINE)) == 2, output


def _trained(_reader: Reader, output: str) -> None:
    assert "The job finished." in output, output


def _retired(reader: Reader, _output: str) -> None:
    assert reader.machines() == ["compute_0", "training-controller", "training-login-1"]


def _deleted(reader: Reader, _output: str) -> None:
    assert reader.machines() == []


CHECKS: dict[str, Any] = {
    "Configure the cluster": _nodes,
    "Log in": lambda _reader, output: len(set(re.findall(r"^compute\d+$", output, re.MULTILINE))) == 2 or output,
    "Stage data in a job": _staged,
    "Train": _trained,
    "Remove a node": _retired,
    "Delete everything": _deleted,
}
"""What is true after a section, besides that its commands succeeded."""


def test_the_caption_of_each_block_says_where_it_belongs() -> None:
    places = (HERE, LOGIN, OUTPUT)
    assert len(BLOCKS) > 20
    assert not [block for block in BLOCKS if block.language == "sh" and block.caption not in places]
    assert not [block for block in BLOCKS if not block.caption]
    assert PAGE.read_text(encoding="utf-8").count(".. code-block::") == len(BLOCKS)


def test_the_page_says_what_is_different_here() -> None:
    last = PAGE.read_text(encoding="utf-8").partition("What is different in the simulator\n---")[2]
    changed = (
        GALAXY,
        BLOB_HOST,
        HOST,
        frameworks.PYTHON,
        "env/bin/pip install torch numpy",
        "shared_home: {source: none}",
    )
    assert not [
        text for text in (*changed, str(PORT), NETWORK, "HPCAI_BLOB_SAS", "a_simulator.yml") if text not in last
    ]


@pytest.mark.parametrize("section", SECTIONS)
def test_the_section_runs_as_it_is_on_the_page(reader: Reader, section: str) -> None:
    if reader.failed:
        pytest.skip(f"the section {reader.failed!r} failed")
    reader.before(section)
    reader.failed = section
    output = "".join(reader.run(block) for block in BLOCKS if block.section == section)
    if section in CHECKS:
        CHECKS[section](reader, output)
    reader.failed = ""
