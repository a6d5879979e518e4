# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base image: a small Debian made by mmdebstrap, with a stand-in for cloud-init."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from simulator.authority import CERTIFICATE, KEY, Authority
from simulator.backends import BackendError
from simulator.backends.containers import apt_sources
from simulator.backends.containers.places import IMAGE_FILES, authority_dir, cache_dir, locked
from simulator.backends.containers.podman import Podman
from simulator.backends.containers.privilege import give_to_caller
from simulator.suite import suite

REPOSITORY = "localhost/hpcai-simulator/base"
AUTHORITIES = Path("/usr/local/share/ca-certificates")
STEP = re.compile(r"^I: ((?:downloading|extracting|installing|creating).*?)(?:\.\.\.)?$")


def packages() -> list[str]:
    """Packages of the base image."""
    lines = (IMAGE_FILES / "packages.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def digest(parts: list[bytes]) -> str:
    """A hash of all parts, twelve characters long."""
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()[:12]


def key() -> str:
    """Content hash of all inputs of the base image."""
    parts = [suite().encode(), platform.machine().encode()]
    parts += [text.encode() for text in apt_sources.for_suite(suite()) + apt_sources.options()]
    for path in sorted(IMAGE_FILES.iterdir()):
        if path.is_file():
            parts += [path.name.encode(), path.read_bytes()]
    if AUTHORITIES.is_dir():
        parts += [path.read_bytes() for path in sorted(AUTHORITIES.rglob("*.crt"))]
    parts.append(authority().certificate)
    return digest(parts)


def authority() -> Authority:
    """The authority that machines of this image trust."""
    folder = authority_dir()
    with locked(cache_dir() / "authority.lock"):
        found = Authority.kept(folder)
        give_to_caller(folder, folder / CERTIFICATE, folder / KEY)
        return found


def reference() -> str:
    """Name and tag of the base image for the current inputs."""
    return f"{REPOSITORY}:{key()}"


def build(podman: Podman, report: Callable[[str], None]) -> str:
    """Make the base image unless the store has it, and return its reference. The caller holds the image lock."""
    wanted = reference()
    if podman.image_exists(wanted):
        return wanted
    began = time.monotonic()
    report(f"base image: Debian {suite()}, {len(packages())} packages and their dependencies (less than a minute)")
    log_path = cache_dir() / "base-image.log"
    with tempfile.TemporaryDirectory(prefix="hpcai-base-") as folder:
        sources = apt_sources.for_suite(suite())
        source_files = []
        for number, text in enumerate(sources):
            path = Path(folder) / f"source{number}.{'sources' if text.startswith('Types:') else 'list'}"
            path.write_text(text, encoding="utf-8")
            source_files.append(str(path))
        argv = [
            "mmdebstrap",
            "--variant=minbase",
            "--mode=root",
            f"--include={','.join(packages())}",
            *(f"--aptopt={option}" for option in apt_sources.options()),
            "--dpkgopt=force-unsafe-io",
            f'--customize-hook={IMAGE_FILES / "customize.sh"} "$1" {IMAGE_FILES} {authority_dir() / CERTIFICATE}',
            suite(),
            "-",
            *source_files,
        ]
        _pipe(argv, [*podman.argv, "import", "--quiet", "-", wanted], podman.env, log_path, began, report)
    report(f"base image: ready after {time.monotonic() - began:.0f} s")
    return wanted


def _pipe(
    make: list[str],
    take: list[str],
    env: dict[str, str],
    log_path: Path,
    began: float,
    report: Callable[[str], None],
) -> None:
    """Stream the root file system into the store, and report mmdebstrap's steps."""
    environment = {**os.environ, **env, "LC_ALL": "C.UTF-8", "TMPDIR": "/var/tmp"}
    with log_path.open("w", encoding="utf-8") as log:
        try:
            maker = subprocess.Popen(
                make, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment
            )
        except FileNotFoundError as error:
            raise BackendError("mmdebstrap is not installed: run tests/setup/host.sh (make setup)") from error
        taker = subprocess.Popen(take, stdin=maker.stdout, stdout=subprocess.DEVNULL, stderr=log, env=environment)
        assert maker.stdout is not None
        assert maker.stderr is not None
        maker.stdout.close()
        for line in maker.stderr:
            text = line.decode(errors="replace").rstrip()
            log.write(text + "\n")
            if step := STEP.match(text):
                report(f"base image: {time.monotonic() - began:3.0f} s: {step[1]}")
        failed = [argv[0] for argv, process in ((make, maker), (take, taker)) if process.wait()]
    if failed:
        tail = log_path.read_text(encoding="utf-8").strip().splitlines()[-3:]
        raise BackendError(f"base image: {' and '.join(failed)} failed: {' | '.join(tail)} (see {log_path})")
