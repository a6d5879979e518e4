# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Opens the store of checkpoints that the options of hpcnode checkpoint name."""

from __future__ import annotations

import argparse
import os
import shutil
from typing import TYPE_CHECKING

from ..machine.root import Root
from .command import UsageError

if TYPE_CHECKING:
    from ..job.checkpoint.names import Member
    from ..job.checkpoint.store import Store

STORE_VARIABLE = "HPCAI_CHECKPOINT_STORE"


def url_of(args: argparse.Namespace) -> str:
    """Return the URL of the store, from the options or the environment.

    :raises UsageError: neither has one.
    """
    url = args.store or os.environ.get(STORE_VARIABLE, "")
    if not url:
        raise UsageError(f"{args.action} needs --store, or {STORE_VARIABLE} in the environment")
    return str(url)


class Opened:
    """A context in which the store is open; azcopy's logs are kept only if something failed."""

    def __init__(self, args: argparse.Namespace, member: Member | None) -> None:
        from ..job.checkpoint.store import StoreOptions, open_store

        url = url_of(args)
        options = StoreOptions(
            args.credential, args.client_id, args.sas_file, args.account_gbps, args.cap_mbps, args.azcopy, args.work
        )
        try:
            self._store, self._folder = open_store(Root(args.root), url, options, member.world if member else 1)
        except ValueError as error:
            from ..machine.config import ConfigError

            raise error if isinstance(error, ConfigError) else UsageError(str(error)) from None

    def __enter__(self) -> Store:
        return self._store

    def __exit__(self, kind: object, *_about: object) -> None:
        from ..job.azcopy.work import keep

        if kind:
            keep(self._folder)
        else:
            shutil.rmtree(self._folder, ignore_errors=True)
