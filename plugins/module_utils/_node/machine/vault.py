# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a key vault is called, apart from what speaks to it."""

from __future__ import annotations

import re
from dataclasses import dataclass

SECRET_NAME = re.compile(r"[0-9A-Za-z-]{1,127}")

# One suffix for each of Azure's clouds. A token of this machine goes nowhere else.
_VAULT = re.compile(
    r"https://(?P<name>[a-z](?:-?[a-z0-9]){2,23})\.(?P<suffix>vault\.azure\.net|vault\.azure\.cn|vault\.usgovcloudapi\.net)"
    r"(?P<port>:[0-9]{1,5})?/?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Vault:
    """A vault.

    :ivar name: its name.
    :ivar url: its URL, without a slash at the end.
    :ivar resource: what a token for it is asked for.
    """

    name: str
    url: str
    resource: str


def vault_of(url: str) -> Vault:
    """Return the vault at ``url``.

    :raises ValueError: it is no vault's URL; the message says what one looks like.
    """
    found = _VAULT.fullmatch(url)
    if not found:
        raise ValueError(
            f"{url!r} is not the URL of a key vault: it looks like https://NAME.vault.azure.net "
            "(or .vault.azure.cn, .vault.usgovcloudapi.net)."
        )
    return Vault(found["name"].lower(), url.rstrip("/").lower(), f"https://{found['suffix'].lower()}")
