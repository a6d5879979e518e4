# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter: find the release files of a role on the controller, or their digests, and report missing ones."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def release_files(
    files: Iterable[Mapping[str, Any]],
    role: str,
    folder: str = "",
    digests: Mapping[str, Any] | None = None,
    otherwise: str = "",
) -> dict[str, Any]:
    """Return the files' paths in a folder by name, and a problem for each file that is missing or has no digest.

    :param files: each with its name, its url, and optionally names, the possible names in the folder, in this order.
    :param role: the prefix of the variables in a problem, ``ROLE_files`` and ``ROLE_sha256``.
    :param folder: a folder on the controller. If given, nothing is downloaded, and its files need no digest.
    :param digests: SHA-256 by name.
    :param otherwise: what a user can do instead of setting a digest. Defaults to setting ``ROLE_files``.
    """
    otherwise = otherwise or f"set {role}_files to a folder with the file"
    local: dict[str, str] = {}
    problems = []
    for file in files:
        name, names = str(file["name"]), [str(name) for name in file.get("names", [file["name"]])]
        found = [path for path in (os.path.join(folder, one) for one in names) if folder and os.path.isfile(path)]
        if found:
            local[name] = found[0]
        elif folder:
            problems.append(f"{folder} ({role}_files) has no {' or '.join(names)}.")
        elif not SHA256.fullmatch(str((digests or {}).get(name, ""))):
            problems.append(
                f'There is no digest of {file["url"]}: set {role}_sha256["{name}"] to its SHA-256 digest '
                f"(64 hexadecimal digits), or {otherwise}."
            )
    return {"local": local, "problems": problems}


class FilterModule:
    """Registers the filters in Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"release_files": release_files}
