# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A storage account on this machine that jobs on simulated machines use: Azurite, under Azure's name and with TLS."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from stand_ins.blob.azurite import Azurite, NotHere, azcopy_in, installed
from stand_ins.blob.certificate import Certificate, certificate_for
from stand_ins.blob.sas import ACCOUNT, account_sas

from .node import Node

HOST = f"{ACCOUNT}.blob.core.windows.net"
TOOLS = "/opt/storage"
BIN = f"{TOOLS}/bin"
"""On a machine: azcopy, a SAS, and an hpcnode that uses both, because no identity of a machine is known to Azurite."""
HPCNODE = f"""#!/bin/sh
case $1 in
  checkpoint | stage) exec /usr/bin/hpcnode "$@" --sas-file {TOOLS}/sas --azcopy {TOOLS}/azcopy --work /var/tmp/work ;;
esac
exec /usr/bin/hpcnode "$@"
"""
CHECKPOINTS = "checkpoints"
"""The container."""


@dataclass(frozen=True)
class StorageAccount:
    """The account, with an empty container.

    :ivar blobs: what it contains.
    """

    blobs: Azurite
    _azcopy: Path
    _address: str
    _certificate: Certificate

    @property
    def url(self) -> str:
        """The container's address on the machines."""
        return f"https://{HOST}:{self.blobs.port}/{CHECKPOINTS}"

    def complete_steps(self, below: str) -> list[int]:
        """The steps of the complete checkpoints in this folder of the container, the newest last."""
        names = self.blobs.names(CHECKPOINTS, f"{below}/complete/")
        return sorted(int(name.split("/")[2].split("-")[0]) for name in names)

    def give(self, node: Node, user: str) -> None:
        """Let this user's jobs on a machine use the account, with the hpcnode in ``BIN``."""
        node.write("/usr/local/share/ca-certificates/storage.crt", self._certificate.public.read_bytes(), "0644")
        node.sh(f"update-ca-certificates >/dev/null; echo {self._address} {HOST} >>/etc/hosts")
        # azcopy needs libsecret; the role blob_staging installs it.
        install = "apt-get -q update && apt-get -qy install --no-install-recommends libsecret-1-0"
        node.sh(f"dpkg --status libsecret-1-0 >/dev/null 2>&1 || {{ {install}; }} >/dev/null")
        node.write(f"{TOOLS}/azcopy", self._azcopy.read_bytes(), "0755")
        node.write(f"{BIN}/hpcnode", HPCNODE.encode(), "0755")
        node.sh(f"install -d -o {user} /var/tmp/work")
        node.write(f"{TOOLS}/sas", account_sas().encode(), "0600")
        node.sh(f"chown {user}: {TOOLS}/sas")


@contextlib.contextmanager
def storage_account(node: Node, folder: Path) -> Iterator[StorageAccount]:
    """An account that machines in the network of this one can reach; skip the test if it cannot be installed.

    :param folder: an empty folder on this machine.
    """
    try:
        programs = installed()
    except NotHere as error:
        pytest.skip(str(error))
    address = node.sh("ip route show default").split()[2]
    certificate = certificate_for(HOST, address, folder)
    blobs = Azurite(programs, folder / "azurite", address, certificate)
    try:
        blobs.container(CHECKPOINTS)
        yield StorageAccount(blobs, Path(azcopy_in(programs)), address, certificate)
    finally:
        blobs.end()
