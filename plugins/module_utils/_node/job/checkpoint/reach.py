# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The way to a series of checkpoints in Blob storage: from this node's settings and what the caller wants otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from ...machine.root import Root
from ..azcopy.credential import SAS, credential_of
from ..azcopy.options import Limits, cap_of, read_settings
from ..azcopy.place import place_of
from ..azcopy.tool import Azcopy
from ..azcopy.work import new_folder, parent_of
from .azcopy_store import AzcopyStore


@dataclass(frozen=True)
class Wish:
    """What the caller wants otherwise than /etc/hpcai/blob.json has it; None and empty texts want nothing."""

    credential: str | None = None
    client_id: str | None = None
    sas_file: str = ""
    account_gbps: float | None = None
    cap_mbps: float | None = None
    azcopy: str | None = None
    work: str | None = None


def open_store(root: Root, url: str, wish: Wish, nodes: int) -> tuple[AzcopyStore, str]:
    """Return the store at ``url``, and the folder of azcopy's logs, which the caller removes.

    :param nodes: how many share the account's limit.
    :raises ConfigError: the settings or the credential cannot be used.
    :raises ValueError: the URL is none, the cap makes no sense, or the folder for logs that is wished for is not there.
    """
    settings = read_settings(root)
    place = place_of(url)
    account = settings.account_gbps if wish.account_gbps is None else wish.account_gbps
    limits = Limits(cap_of(wish.cap_mbps, account, nodes), settings.connections)
    kind = wish.credential or (SAS if wish.sas_file else settings.credential)
    credential = credential_of(kind, wish.client_id or settings.client_id, wish.sas_file)
    folder = new_folder("checkpoint", parent_of(wish.work or "", settings.work_folder))
    return AzcopyStore(Azcopy(folder, credential, limits, wish.azcopy or settings.azcopy), place), folder
