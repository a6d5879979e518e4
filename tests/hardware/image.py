# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The image of the emulated machine: a small Debian, built once by mmdebstrap and kept in the cache.

python -m hardware.image        build the image if it does not exist, and print its path
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from simulator.backends.containers import apt_sources
from simulator.backends.containers.base_image import digest
from simulator.backends.containers.places import IMAGE_FILES, cache_dir, locked
from simulator.suite import suite

FILES = Path(__file__).resolve().parent / "image_files"
ZIP_CACHE = IMAGE_FILES / "zip_cache.py"
"""A file that emulated machines and containers share."""
KEPT = 4
"""Number of images to keep, by last use, so that two checkouts do not delete each other's image."""
PARTS = ("vmlinuz", "initrd", "root.img", "key", "host_key.pub")
STEP = re.compile(r"^I: ((?:downloading|extracting|installing|running).*?)(?:\.\.\.)?$")


class ImageError(Exception):
    """The image could not be built."""


@dataclasses.dataclass(frozen=True)
class Image:
    """Files that QEMU boots, and the ssh keys of the machine."""

    folder: Path

    @property
    def kernel(self) -> Path:
        """The kernel. QEMU loads it, so the machine needs no boot loader."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """The initrd, which finds the root disk."""
        return self.folder / "initrd"

    @property
    def root(self) -> Path:
        """The root file system. It is never changed, because machines run on overlays."""
        return self.folder / "root.img"

    @property
    def key(self) -> Path:
        """The private key with which root can log in."""
        return self.folder / "key"

    @property
    def host_key(self) -> str:
        """The machine's public host key."""
        return (self.folder / "host_key.pub").read_text(encoding="ascii").strip()


def packages() -> list[str]:
    """Packages of the image."""
    lines = (FILES / "packages.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def key() -> str:
    """Hash of all inputs of the image."""
    parts = [suite().encode(), platform.machine().encode()]
    parts += [text.encode() for text in apt_sources.for_suite(suite()) + apt_sources.options()]
    for path in sorted([*FILES.iterdir(), ZIP_CACHE]):
        parts += [path.name.encode(), path.read_bytes()]
    return digest(parts)


def prepare(report: Callable[[str], None]) -> Image:
    """Return the image for this checkout, and build it if the cache lacks it."""
    home = cache_dir() / "hardware"
    image = Image(home / f"image-{key()}")
    with locked(home / "image.lock", lambda: report("another process is building the image: waiting for it")):
        if not image.folder.exists():
            _build(image.folder, report)
        os.utime(image.folder)
        present = sorted(home.glob("image-*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in present[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    return image


def _build(target: Path, report: Callable[[str], None]) -> None:
    if platform.machine() != "x86_64":
        raise ImageError(
            f"the image of the emulated machine can only be built on x86-64; this host is {platform.machine()}"
        )
    began = time.monotonic()
    report(f"Debian {suite()} by mmdebstrap, {len(packages())} packages and their dependencies (about two minutes)")
    with tempfile.TemporaryDirectory(prefix="building-", dir=target.parent) as name:
        folder = Path(name)
        output = folder / "image"
        output.mkdir()
        comment = "hpcai-hardware"
        subprocess.run(
            ["ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-C", comment, "-f", str(output / "key")], check=True
        )
        _run(_command(folder, output), target.parent / "image.log", began, report)
        missing = [part for part in PARTS if not (output / part).exists()]
        if missing:
            raise ImageError(f"mmdebstrap succeeded, but did not create {', '.join(missing)} (see image.log)")
        output.rename(target)
    report(f"ready after {time.monotonic() - began:.0f} s")


def _command(folder: Path, output: Path) -> list[str]:
    source_files = []
    for number, text in enumerate(apt_sources.for_suite(suite())):
        path = folder / f"source{number}.{'sources' if text.startswith('Types:') else 'list'}"
        path.write_text(text, encoding="utf-8")
        source_files.append(str(path))
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    owner = f"{os.getuid()}:{os.getgid()}"
    return [
        *as_root,
        *("env", "LC_ALL=C.UTF-8", "TMPDIR=/var/tmp", "mmdebstrap"),
        "--variant=minbase",
        "--mode=root",
        "--format=null",
        f"--include={','.join(packages())}",
        *(f"--aptopt={option}" for option in apt_sources.options()),
        "--dpkgopt=force-unsafe-io",
        "--dpkgopt=force-confold",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        # The initrd is built once, at the end, and not after each package that contributes to it.
        "--essential-hook=mkdir -p \"$1/etc/initramfs-tools\" && printf 'update_initramfs=no\\n' "
        '> "$1/etc/initramfs-tools/update-initramfs.conf"',
        f'--customize-hook={FILES / "customize.sh"} "$1" {FILES} {output} {owner} {ZIP_CACHE}',
        suite(),
        "/dev/null",
        *source_files,
    ]


def _run(command: list[str], log_path: Path, began: float, report: Callable[[str], None]) -> None:
    """Run mmdebstrap, and report its progress."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    except FileNotFoundError as error:
        raise ImageError(f"{command[0]} is not installed: run tests/setup/host.sh") from error
    assert process.stdout is not None
    with log_path.open("w", encoding="utf-8") as log:
        for line in process.stdout:
            log.write(line)
            if step := STEP.match(line.rstrip()):
                report(f"{time.monotonic() - began:3.0f} s: {step[1][:100]}")
    if process.wait():
        tail = log_path.read_text(encoding="utf-8").strip().splitlines()[-3:]
        raise ImageError(f"mmdebstrap failed: {' | '.join(tail)} (complete output: {log_path})")


def main() -> int:
    """Build the image, and print its path."""
    try:
        image = prepare(lambda text: print(f"[hardware] image: {text}", flush=True))
    except ImageError as error:
        print(f"[hardware] image: {error}", file=sys.stderr)
        return 1
    print(f"[hardware] image: {image.folder}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
