# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Credentials for blobs. A SAS is a secret: it is passed in azcopy's arguments, and nowhere else.

Only root can use the machine's managed identity. A user's process gets a SAS for the containers that its groups are
granted, from the service of ``job.grants``.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...forms import GUID
from ...machine.config import ConfigError
from ..grants.client import Granted, GrantsError
from ..grants.protocol import READ
from .location import parse_location
from .output import DENIED, BlobError

IDENTITY, WORKLOAD, SAS, NONE = "identity", "workload", "sas", "none"
KINDS = (IDENTITY, WORKLOAD, SAS, NONE)
SAS_VARIABLE = "HPCAI_BLOB_SAS"
"""The environment variable with a SAS, if no file is given. It is not passed to child processes."""

_WORKLOAD_VARIABLES = ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE")
# A URL query; no newline and no space, which would start a second argument or come from a truncated file.
_TOKEN = re.compile(r"[\x21-\x7e]*sig=[\x21-\x7e]+")


@dataclass(frozen=True)
class Credential:
    """Credentials for Blob storage.

    :ivar kind: one of KINDS.
    :ivar client_id: with IDENTITY, which of the machine's identities; empty if there is only one.
    :ivar token: with SAS, the part after the question mark.
    :ivar file: the file with the SAS, which may be replaced by a newer one; empty if there is no file.
    :ivar granted: with IDENTITY in a user's process, what requests a SAS for each azcopy.
    """

    kind: str
    client_id: str = ""
    token: str = field(default="", repr=False)
    file: str = ""
    granted: Granted | None = None

    def sign(self, url: str, need: str = READ) -> str:
        """Return the URL for azcopy's arguments. It is a secret if it contains a SAS.

        The file is read again for each azcopy, because a process that runs for days needs a new SAS when one expires.
        If the file is missing or incomplete, the first SAS is used.

        :param need: one of ``grants.protocol.RIGHTS``: what azcopy will do there.
        :raises BlobError: the service does not return a SAS; the message says why.
        """
        token = self.token
        if self.granted:
            try:
                token = self.granted.sas(parse_location(url).url, need)
            except GrantsError as error:
                raise BlobError(f"no {need} access to {url}: {error}", DENIED) from None
        if self.file:
            with contextlib.suppress(ConfigError):
                token = _checked(_read(self.file), self.file)
        return f"{url}?{token}" if token else url

    def variables(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for azcopy: the given one with these credentials, and without any others."""
        ours = {
            name: value
            for name, value in given.items()
            if name != SAS_VARIABLE and not name.startswith(("AZCOPY_AUTO_LOGIN", "AZCOPY_MSI_", "AZCOPY_SPA_"))
        }
        if self.kind in (IDENTITY, WORKLOAD) and not self.granted:
            ours["AZCOPY_AUTO_LOGIN_TYPE"] = "MSI" if self.kind == IDENTITY else "WORKLOAD"
        if self.kind == IDENTITY and self.client_id and not self.granted:
            ours["AZCOPY_MSI_CLIENT_ID"] = self.client_id
        return ours


def credential_of(
    kind: str,
    client_id: str = "",
    sas_file: str = "",
    environment: Mapping[str, str] | None = None,
    uid: int | None = None,
) -> Credential:
    """Return the credential of that kind; a SAS is read from its file or from SAS_VARIABLE.

    :param uid: the user who runs azcopy; None for this process's user.
    :raises ConfigError: no valid credential; the message names the file or the variable, and nothing of the secret.
    """
    variables = os.environ if environment is None else environment
    if kind == IDENTITY:
        if client_id and not GUID.fullmatch(client_id):
            raise ConfigError(f"the client id {client_id!r} is invalid: it must be a GUID.")
        is_root = (os.geteuid() if uid is None else uid) == 0
        return Credential(IDENTITY, client_id, granted=None if is_root else Granted())
    if kind == WORKLOAD:
        missing = [name for name in _WORKLOAD_VARIABLES if not variables.get(name)]
        if missing:
            raise ConfigError(f"workload identity needs {', '.join(missing)} in the environment.")
        return Credential(WORKLOAD)
    if kind == SAS:
        token = _read(sas_file) if sas_file else variables.get(SAS_VARIABLE, "")
        return Credential(SAS, token=_checked(token, sas_file or f"the variable {SAS_VARIABLE}"), file=sas_file)
    if kind == NONE:
        return Credential(NONE)
    raise ConfigError(f"credential {kind!r} is unknown: it must be one of {', '.join(KINDS)}.")


def _checked(text: str, where: str) -> str:
    token = text.strip().lstrip("?")
    if not token:
        raise ConfigError(f"{where} is empty: create a short-lived SAS, and store it there.")
    if not _TOKEN.fullmatch(token) or "://" in token:
        raise ConfigError(
            f"{where} does not contain a SAS: it must be one line such as 'sv=...&sp=rl&...&sig=...', without the URL."
        )
    return token


def _read(path: str) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise ConfigError(f"the SAS file {path} cannot be read: {error.strerror}.") from None
    with open(handle, encoding="ascii", errors="replace") as file:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid not in (0, os.geteuid()):
            raise ConfigError(f"the SAS file {path} is invalid: it must be a regular file that you or root own.")
        if stat.S_IMODE(facts.st_mode) & 0o077:
            raise ConfigError(
                f"the SAS file {path} is accessible to other users: run 'chmod 600' on it, and create a new SAS."
            )
        return file.read(65536)
