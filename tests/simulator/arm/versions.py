# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of Resource Manager's interface that exist, for each type of resource that a client may PUT.

api_versions.py makes ``api_versions.json`` from Azure's published types. Types that are only read are not in it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from simulator.arm.errors import ArmError

FILE = Path(__file__).parents[1] / "api_versions.json"
_OTHERS = "2024-03-01"
"""For types without a list. The simulator accepts every version of them."""


@cache
def published() -> dict[str, list[str]]:
    """The versions of each type, by its name in lower case, the oldest first."""
    found: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))["versions"]
    return {kind.lower(): versions for kind, versions in found.items()}


def type_of(method: str, path: str) -> str:
    """The type of the resource that a request is about, in lower case.

    Another provider may answer for a list below a resource, such as that of a scale set's interfaces.
    """
    _scope, providers, below = path.lower().strip("/").rpartition("providers/")
    if not providers:
        # /subscriptions/ID/resourceGroups/NAME
        return "/".join(["microsoft.resources", *below.split("/")[2::2]])
    namespace, *parts = below.split("/")
    kind = "/".join([namespace, *parts[::2]])
    is_action = method == "POST" and len(parts) % 2 == 1 and len(parts) > 1
    return kind.rpartition("/")[0] if is_action else kind


def newest(kind: str) -> str:
    """The newest version of a type that is no preview."""
    known = published().get(kind.lower()) or [_OTHERS]
    return next(version for version in reversed(known) if not version.endswith("preview"))


def check(kind: str, version: str) -> None:
    """Raise ArmError if a type of resource has no such version."""
    known = published().get(kind.lower())
    if known is not None and version not in known:
        raise ArmError(
            400,
            "NoRegisteredProviderFound",
            f"No registered resource provider found for API version '{version}' for type "
            f"'{kind.partition('/')[2]}'. The supported api-versions are '{', '.join(known)}'.",
        )
