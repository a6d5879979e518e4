# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The files and links by which enroot gets its settings."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...machine.config import as_config
from ...machine.pci import read_pci
from ...machine.root import Root
from ..managed_file import FileChange, change_of
from .enroot_conf import DROP_IN, drop_in
from .options import SETTINGS, Options

HEADER = "# Written by hpcai.azure.container_node, which overwrites it.\n"
TMPFILES = "/etc/tmpfiles.d/hpcai-containers.conf"
SYSCTL = "/etc/sysctl.d/60-hpcai-containers.conf"
NVIDIA = "/etc/enroot/environ.d/50-hpcai-nvidia.env"
MELLANOX = "/etc/enroot/environ.d/50-hpcai-mellanox.env"
CREDENTIAL_FOLDER = "/etc/hpcai/enroot"
CREDENTIALS = f"{CREDENTIAL_FOLDER}/.credentials"
IMPORTER = "/usr/libexec/hpcai/pyxis-importer"
HOOKS, EXTRA_HOOKS = "/etc/enroot/hooks.d", "/usr/share/enroot/hooks.d"
APPARMOR, APPARMOR_OFF = "/etc/apparmor.d/enroot", "/etc/apparmor.d/disable/enroot"
_CONTAINER_CLI = ("/usr/bin/nvidia-container-cli", "/usr/local/bin/nvidia-container-cli")
ACR_USER = "00000000-0000-0000-0000-000000000000"
"""The user name that stands for a token, in every registry of Azure."""

_IMPORTER_TEXT = f"""\
#!/bin/sh
{HEADER}exec /usr/bin/hpcnode containers importer "$@"
"""


@dataclass(frozen=True)
class LinkChange:
    """A symbolic link, before and after.

    :ivar before: where it points to; None where there is no link.
    :ivar after: where it should point to; None if it should not be there.
    """

    path: str
    before: str | None
    after: str | None

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.before != self.after

    def apply(self) -> None:
        """Do it, in one step.

        :raises OSError: it cannot be done, as where something else lies there.
        """
        if not self.changes:
            return
        if self.after is None:
            os.unlink(self.path)
            return
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        temporary = f"{self.path}.hpcai"
        if os.path.lexists(temporary):
            os.unlink(temporary)
        os.symlink(self.after, temporary)
        os.replace(temporary, self.path)

    def as_diff(self) -> dict[str, str]:
        """Return the change in the form of Ansible's diff."""
        words = [f"link to {target}\n" if target else "" for target in (self.before, self.after)]
        return {"before_header": self.path, "after_header": self.path, "before": words[0], "after": words[1]}


def link_change(path: str, after: str | None) -> LinkChange:
    """Return the change that makes ``path`` a link to ``after``, or removes the link."""
    before = os.readlink(path) if os.path.islink(path) else None
    return LinkChange(path, before, after)


def file_changes(options: Options, root: Root) -> list[FileChange]:
    """Return the files that are the same on every machine of the cluster."""
    credentials = credentials_text(options)
    settings = options.enroot_settings
    if credentials:
        settings.setdefault("ENROOT_CONFIG_PATH", CREDENTIAL_FOLDER)
    sysctl = "".join(f"-{key} = {value}\n" for key, value in sorted(options.sysctl.items()))
    return [
        change_of(root.at(DROP_IN), drop_in(settings)),
        change_of(root.at(TMPFILES), _tmpfiles(options)),
        change_of(root.at(SYSCTL), HEADER + sysctl if sysctl else None),
        change_of(root.at(CREDENTIALS), credentials or None),
        change_of(root.at(IMPORTER), _IMPORTER_TEXT, 0o755),
        change_of(root.at(SETTINGS), as_config(options.remembered())),
    ]


def hardware_changes(options: Options, root: Root) -> list[FileChange]:
    """Return the files that hang on what the machine has: an image knows nothing of that, so each boot looks.

    A variable that asks for GPUs lets enroot's hook fail, and with it each container, where nothing can give them.
    """
    gpus = any(device.is_gpu for device in read_pci(root)) and has_container_cli(root)
    adapters = bool(root.entries("/sys/class/infiniband"))
    return [
        change_of(root.at(NVIDIA), _environ(dict(options.nvidia)) if gpus and options.nvidia else None),
        change_of(root.at(MELLANOX), _environ(dict(options.mellanox)) if adapters and options.mellanox else None),
    ]


def has_container_cli(root: Root) -> bool:
    """Whether libnvidia-container-tools are there, by which GPUs come into containers."""
    return any(root.exists(path) for path in _CONTAINER_CLI)


def link_changes(options: Options, root: Root) -> list[LinkChange]:
    """Return enroot's optional hooks, as links, and whether its AppArmor profile is loaded."""
    changes = [link_change(root.at(f"{HOOKS}/{name}"), f"{EXTRA_HOOKS}/{name}") for name in options.hooks]
    # Those of ours that are no longer wanted; what others put there is theirs.
    for name in root.entries(HOOKS):
        path = root.at(f"{HOOKS}/{name}")
        if name not in options.hooks and os.path.islink(path) and os.readlink(path) == f"{EXTRA_HOOKS}/{name}":
            changes.append(link_change(path, None))
    if options.apparmor == "off" and root.exists(APPARMOR):
        changes.append(link_change(root.at(APPARMOR_OFF), APPARMOR))
    elif options.apparmor == "profile":
        changes.append(link_change(root.at(APPARMOR_OFF), None))
    return changes


def missing_hooks(options: Options, root: Root) -> list[str]:
    """Return the hooks that enroot's package does not have."""
    return [name for name in options.hooks if not root.exists(f"{EXTRA_HOOKS}/{name}")]


def credentials_text(options: Options) -> str:
    """Return enroot's credentials: commands that give a password, and no password itself."""
    lines = []
    identity = f" --client-id {options.acr_client_id}" if options.acr_client_id else ""
    for registry in options.acr_registries:
        lines.append(f"machine {registry} login {ACR_USER} password $(hpcnode containers token {registry}{identity})\n")
    if options.ngc_key_file:
        lines += [
            f"machine {host} login $oauthtoken password $(cat {options.ngc_key_file})\n"
            for host in ("nvcr.io", "authn.nvidia.com")
        ]
    return HEADER + "".join(lines) if lines else ""


def _tmpfiles(options: Options) -> str:
    folders = options.shared_folders.items()
    return HEADER + "".join(f"d {path} {mode:04o} root root -\n" for path, mode in folders)


def _environ(variables: dict[str, str]) -> str:
    return HEADER + "".join(f"{name}={variables[name]}\n" for name in sorted(variables))
