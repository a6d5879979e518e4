# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""podman with our own store, run-time folder and configuration, so that it does not see containers of others."""

from __future__ import annotations

import json
import resource
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.backends import BackendError
from simulator.backends.containers.command import run
from simulator.backends.containers.places import cache_dir, locked, run_dir

CGROUPS = Path("/sys/fs/cgroup")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
DESCRIPTORS = 20000
"""Open files and processes allowed in a machine; less where the host itself allows less."""

_prepared = threading.Lock()


def plain_cgroup_v2() -> bool:
    """Whether the host has only the unified hierarchy. v1 and hybrid mounts do not have this file."""
    return (CGROUPS / "cgroup.controllers").exists()


def _limits() -> list[str]:
    # Without CAP_SYS_RESOURCE podman's own default (1048576) is refused, so request at most our own limit.
    limits = []
    for word, number in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(number)[1]
        allowed = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
        limits.append(f"{word}={allowed}:{allowed}")
    return limits


def _runtime() -> str:
    # Only runc can start systemd on v1 or hybrid hierarchies. On v2, crun is the distributions' default.
    wanted = ("crun", "runc") if plain_cgroup_v2() else ("runc",)
    for name in wanted:
        if shutil.which(name):
            return name
    raise BackendError(f"none of {', '.join(wanted)} is installed: run tests/setup/host.sh (make setup)")


def _store() -> Path:
    return cache_dir() / "containers"


def _write_configuration(folder: Path) -> None:
    limits = ", ".join(json.dumps(limit) for limit in _limits())
    (folder / "containers.conf").write_text(
        "[containers]\n"
        f"default_ulimits = [{limits}]\n"
        "pids_limit = 0\n"
        'log_driver = "none"\n'
        "[engine]\n"
        f'runtime = "{_runtime()}"\n'
        'cgroup_manager = "cgroupfs"\n'
        'events_logger = "none"\n'
        "[network]\n"
        'network_backend = "netavark"\n',
        encoding="utf-8",
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{_store()}"\nrunroot = "{folder / "run"}"\n', encoding="utf-8"
    )


def _prepare() -> Path:
    """The run-time folder. It is emptied after a reboot of the host: podman would assume that all containers run."""
    folder = run_dir()
    with _prepared, locked(folder / "prepare.lock"):
        boot_id = BOOT_ID.read_text(encoding="ascii").strip()
        stamp = folder / "boot_id"
        if not stamp.exists() or stamp.read_text(encoding="ascii") != boot_id:
            for name in ("run", "tmp"):
                shutil.rmtree(folder / name, ignore_errors=True)
            for name in ("run", "tmp", "networks"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            _write_configuration(folder)
            stamp.write_text(boot_id, encoding="ascii")
        elif not (folder / "containers.conf").exists():
            _write_configuration(folder)
    return folder


class Podman:
    """The podman command on our own store."""

    def __init__(self) -> None:
        self._folder = _prepare()
        root = _store()
        root.mkdir(parents=True, exist_ok=True)
        self._argv = [
            "podman",
            f"--root={root}",
            f"--runroot={self._folder / 'run'}",
            f"--tmpdir={self._folder / 'tmp'}",
            f"--network-config-dir={self._folder / 'networks'}",
        ]
        self._env = {
            "CONTAINERS_CONF": str(self._folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self._folder / "storage.conf"),
        }

    @property
    def argv(self) -> list[str]:
        """The command line up to the sub-command (for pipes)."""
        return list(self._argv)

    @property
    def env(self) -> dict[str, str]:
        """The additional environment variables."""
        return dict(self._env)

    def run(self, *args: str, stdin: str | None = None, check: bool = True, timeout: float = 60) -> str:
        """Run one podman sub-command and return its output."""
        return run([*self._argv, *args], stdin=stdin, check=check, timeout=timeout, env=self._env)

    def containers(self, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """All containers with these labels, running or not."""
        filters = [f"--filter=label={key}={value}" for key, value in labels.items()]
        found = json.loads(self.run("ps", "--all", "--format=json", *filters) or "[]")
        return list(found or [])

    def images(self, repository: str) -> list[dict[str, Any]]:
        """Images of one repository, newest first."""
        found = json.loads(self.run("images", "--format=json", f"--filter=reference={repository}") or "[]")
        return sorted(found or [], key=lambda image: int(image["Created"]), reverse=True)

    def image_exists(self, reference: str) -> bool:
        """Whether the store has this image."""
        return bool(self.run("images", "--quiet", reference).strip())

    def remove_containers(self, ids: list[str]) -> None:
        """Kill and remove containers. Missing containers are not an error."""
        if ids:
            self.run("rm", "--force", "--ignore", "--time=0", "--volumes", *ids, timeout=120)
