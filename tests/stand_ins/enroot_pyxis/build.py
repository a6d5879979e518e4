# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds files with the names and layout of the release files, with dpkg-deb and a C compiler.

The same input gives the same bytes, and the nodes' image is rebuilt when a file changes.
"""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

from stand_ins.debian_package import EPOCH, make_package

HERE = Path(__file__).parent
ENROOT, PYXIS = "4.1.2", "0.24.0"
PURPOSE = "It has the commands that pyxis calls, for local squashfs files only."


def build(folder: Path) -> list[Path]:
    """Build the release files in ``folder``, create it if it is missing, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _package(folder, "enroot", "bash, squashfs-tools, util-linux", _enroot_tree),
        _package(folder, "enroot+caps", f"enroot (= {ENROOT}-1)", lambda _root: None),
        _source(folder / f"pyxis-{PYXIS}.tar.gz"),
    ]


def _package(folder: Path, name: str, depends: str, fill: Callable[[Path], None]) -> Path:
    return make_package(folder, name, f"{ENROOT}-1", depends=depends, purpose=PURPOSE, fill=fill)


def _enroot_tree(root: Path) -> None:
    for path in ("usr/bin", "usr/share/enroot/hooks.d", "etc/enroot/enroot.conf.d"):
        (root / path).mkdir(parents=True)
    for path in ("hooks.d", "environ.d", "mounts.d"):
        (root / "etc/enroot" / path).mkdir()
    (root / "etc/enroot/enroot.conf").write_text("#ENROOT_DATA_PATH ${XDG_DATA_HOME}/enroot\n", encoding="utf-8")
    programs = {
        "enroot/enroot": "usr/bin/enroot",
        "enroot/hooks/50-slurm-pmi.sh": "usr/share/enroot/hooks.d/50-slurm-pmi.sh",
        "enroot/hooks/50-slurm-pytorch.sh": "usr/share/enroot/hooks.d/50-slurm-pytorch.sh",
    }
    for source, target in programs.items():
        shutil.copyfile(HERE / source, root / target)
        (root / target).chmod(0o755)
    # Linked statically, so that it runs with any C library on the node.
    compiler = ["gcc", "-O2", "-Wall", "-Wextra", "-static", "-o", str(root / "usr/bin/enroot-switchroot")]
    subprocess.run([*compiler, str(HERE / "enroot/switchroot.c")], check=True)


def _source(target: Path) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for file in sorted((HERE / "pyxis").iterdir()):
            content = file.read_bytes()
            member = tarfile.TarInfo(f"pyxis-{PYXIS}/{file.name}")
            member.size, member.mode, member.mtime = len(content), 0o644, EPOCH
            tar.addfile(member, io.BytesIO(content))
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return target
