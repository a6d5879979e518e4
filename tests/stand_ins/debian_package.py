# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds Debian packages of stand-ins with dpkg-deb, and an index for apt. The same input gives the same bytes."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

EPOCH = 1767225600
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: hpcai.azure contributors <noreply@example.com>
Depends: {depends}
Description: Stand-in for {name}, for tests
 {purpose}
"""


def make_package(
    folder: Path,
    name: str,
    version: str,
    *,
    depends: str,
    purpose: str,
    fill: Callable[[Path], None],
    architecture: str = "",
    scripts: Mapping[str, str] | None = None,
) -> Path:
    """Build one package from the files that ``fill`` writes below a root folder.

    :param architecture: by default that of this machine.
    :param scripts: maintainer scripts such as ``postinst``, without their first line.
    """
    architecture = architecture or _ARCHITECTURES.get(platform.machine(), platform.machine())
    # A file's name does not contain the epoch.
    target = folder / f"{name}_{version.partition(':')[2] or version}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "root"
        (root / "DEBIAN").mkdir(parents=True)
        control = _CONTROL.format(
            name=name, version=version, architecture=architecture, depends=depends, purpose=purpose
        )
        (root / "DEBIAN/control").write_text(control, encoding="utf-8")
        for script, content in (scripts or {}).items():
            (root / "DEBIAN" / script).write_text(f"#!/bin/sh\nset -e\n{content}", encoding="utf-8")
            (root / "DEBIAN" / script).chmod(0o755)
        fill(root)
        for made in root.rglob("*"):
            os.utime(made, (EPOCH, EPOCH), follow_symlinks=False)
        root.chmod(0o755)
        command = ["dpkg-deb", "--build", "--root-owner-group", "-Zgzip", str(root), str(target)]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)})
    return target


def write_index(folder: Path, packages: Iterable[Path]) -> Path:
    """Write an index that makes the folder a repository for apt: ``deb [trusted=yes] file:FOLDER ./``."""
    entries = []
    for package in packages:
        command = ["dpkg-deb", "--field", str(package)]
        fields = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        entries.append(f"{fields}Filename: ./{package.name}\nSize: {package.stat().st_size}\nSHA256: {digest}\n")
    target = folder / "Packages"
    target.write_text("\n".join(entries), encoding="utf-8")
    return target
