# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the packages, named as the real ones, from the files in ``program``, with dpkg-deb.

The same input gives the same bytes, and the nodes' image is rebuilt when a file changes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from stand_ins.beegfs.program.settings import VERSION as REAL_VERSION
from stand_ins.debian_package import make_package, write_index

PROGRAM = Path(__file__).parent / "program"
# With the epoch of the real packages, so that "apt-get install beegfs-meta=20:7.4.7*" finds this version.
VERSION = f"20:{REAL_VERSION}+standin"
LIBRARY = "opt/beegfs/lib/stand-in"
DAEMONS = ("mgmtd", "meta", "storage", "helperd")
PURPOSE = "It behaves like BeeGFS as seen from outside, for a few megabytes and with failures on request."

_LAUNCHER = """\
#!/usr/bin/python3 -IS
import sys

sys.path.insert(0, "/{library}")
from beegfs_stand_in.{module} import {function}

raise SystemExit({function}(sys.argv))
"""
_CONFIGURATIONS = {
    "mgmtd": "storeMgmtdDirectory =\n",
    "meta": "sysMgmtdHost =\nstoreMetaDirectory =\n",
    "storage": "sysMgmtdHost =\nstoreStorageDirectory =\n",
    "helperd": "",
    "client": "sysMgmtdHost =\n",
}
_UNIT = """\
[Unit]
Description=Stand-in for beegfs-{name}{instance}
Requires=network-online.target
After=network-online.target

[Service]
ExecStart=/opt/beegfs/sbin/beegfs-{name} cfgFile=/etc/beegfs/{folder}beegfs-{name}.conf runDaemonized=false
Type=simple
TimeoutStopSec=300

[Install]
WantedBy=multi-user.target
"""
# Like the real packages, the unit is enabled but not started. Removing a package removes all of its files.
_ENABLE = "if [ -d /run/systemd/system ]; then systemctl --quiet enable beegfs-{name}.service; fi\n"
_DISABLE = """\
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl --quiet disable beegfs-{name}.service; fi
"""
_CLEAN = f"find /{LIBRARY} -name __pycache__ -prune -exec rm -rf {{}} +\n"


def build(folder: Path) -> list[Path]:
    """Build the packages in ``folder``, create it if it is missing, add an index for apt, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [_package(folder, "beegfs-common", _common, depends="python3:any", scripts={"prerm": _CLEAN})]
    for name in DAEMONS:
        scripts = {"postinst": _ENABLE.format(name=name), "prerm": _DISABLE.format(name=name)}
        made.append(_package(folder, f"beegfs-{name}", _daemon(name), scripts=scripts))
    made.append(_package(folder, "beegfs-utils", _utils))
    made.append(_package(folder, "libbeegfs-ib", lambda _root: None))
    # kmod provides modprobe; the real package has it through dkms.
    client = f"beegfs-common (= {VERSION}), kmod"
    made.append(_package(folder, "beegfs-client-dkms", _client, depends=client, architecture="all"))
    write_index(folder, made)
    return made


def _package(
    folder: Path,
    name: str,
    fill: Callable[[Path], None],
    *,
    depends: str = f"beegfs-common (= {VERSION})",
    scripts: dict[str, str] | None = None,
    architecture: str = "",
) -> Path:
    def fill_and_list(root: Path) -> None:
        fill(root)
        settings = sorted(f"/{path.relative_to(root)}\n" for path in (root / "etc").rglob("*") if path.is_file())
        (root / "DEBIAN/conffiles").write_text("".join(settings), encoding="ascii")

    return make_package(
        folder,
        name,
        VERSION,
        depends=depends,
        purpose=PURPOSE,
        fill=fill_and_list,
        scripts=scripts,
        architecture=architecture,
    )


def _write(root: Path, path: str, text: str, mode: int = 0o644) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    target.chmod(mode)


def _command(root: Path, path: str, module: str, function: str = "main") -> None:
    _write(root, path, _LAUNCHER.format(library=LIBRARY, module=module, function=function), 0o755)


def _common(root: Path) -> None:
    shutil.copytree(PROGRAM, root / LIBRARY / "beegfs_stand_in", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "etc/beegfs").mkdir(parents=True)


def _daemon(name: str) -> Callable[[Path], None]:
    def fill(root: Path) -> None:
        _command(root, f"opt/beegfs/sbin/beegfs-{name}", name)
        _write(root, f"etc/beegfs/beegfs-{name}.conf", f"connAuthFile =\n{_CONFIGURATIONS[name]}")
        units = f"lib/systemd/system/beegfs-{name}"
        _write(root, f"{units}.service", _UNIT.format(name=name, instance="", folder=""))
        _write(root, f"{units}@.service", _UNIT.format(name=name, instance=" (%i)", folder="%i.d/"))

    return fill


def _utils(root: Path) -> None:
    _command(root, "opt/beegfs/sbin/beegfs-ctl", "ctl")
    (root / "usr/sbin").mkdir(parents=True)
    (root / "usr/sbin/beegfs-ctl").symlink_to("/opt/beegfs/sbin/beegfs-ctl")
    _command(root, "usr/bin/beegfs-net", "net")


def _client(root: Path) -> None:
    _command(root, "sbin/mount.beegfs", "mounting", "mount")
    # umount looks for a helper named after the type of the FUSE file system.
    _command(root, "sbin/umount.fuse.beegfs", "mounting", "unmount")
    _command(root, f"{LIBRARY}/client.py", "client")
    _write(root, "etc/beegfs/beegfs-client.conf", f"connAuthFile =\n{_CONFIGURATIONS['client']}")
    _write(root, "etc/beegfs/beegfs-client-autobuild.conf", "buildArgs=-j8\n")
    _write(root, "etc/beegfs/beegfs-client-build.mk", "# The real package reads OFED_INCLUDE_PATH from here.\n")
    # There is no kernel module, so "modprobe beegfs" does nothing and succeeds.
    _write(root, "etc/modprobe.d/beegfs-stand-in.conf", "install beegfs /bin/true\n")
