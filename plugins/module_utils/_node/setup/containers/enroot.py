# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Enroot's settings on a node: the files and links that apply them, for container_node and for the boot phase."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...machine.config import ConfigError, as_config
from ...machine.pci import read_pci
from ...machine.root import Root
from ...machine.run import CommandFailed, Run, must
from ..managed_file import FileChange, apply_all, change_of, diff_of
from .options import DROP_IN, SETTINGS, EnrootOptions, drop_in, read_options

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
"""The user name that goes with a token, in every Azure registry."""

_IMPORTER_TEXT = f"""\
#!/bin/sh
{HEADER}exec /usr/bin/hpcnode containers importer "$@"
"""


@dataclass(frozen=True)
class LinkChange:
    """A symbolic link, before and after.

    :ivar before: its target; None if there is no link.
    :ivar after: the wanted target; None to remove the link.
    """

    path: str
    before: str | None
    after: str | None

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.before != self.after

    def apply(self) -> None:
        """Make the change in one step.

        :raises OSError: it cannot be made, for example because a file that is not a link is in the way.
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


def file_changes(options: EnrootOptions, root: Root) -> list[FileChange]:
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


def hardware_changes(options: EnrootOptions, root: Root) -> list[FileChange]:
    """Return the files that depend on the node's hardware. An image has none of it, so each boot writes them.

    Where no GPU is available, a variable that requests GPUs makes enroot's hook fail, and with it each container.
    """
    gpus = any(device.is_gpu for device in read_pci(root)) and has_container_cli(root)
    adapters = bool(root.entries("/sys/class/infiniband"))
    return [
        change_of(root.at(NVIDIA), _environ(dict(options.nvidia)) if gpus and options.nvidia else None),
        change_of(root.at(MELLANOX), _environ(dict(options.mellanox)) if adapters and options.mellanox else None),
    ]


def has_container_cli(root: Root) -> bool:
    """Whether libnvidia-container-tools are installed, which make GPUs available in containers."""
    return any(root.exists(path) for path in _CONTAINER_CLI)


def link_changes(options: EnrootOptions, root: Root) -> list[LinkChange]:
    """Return enroot's optional hooks, as links, and the link that disables its AppArmor profile."""
    changes = [link_change(root.at(f"{HOOKS}/{name}"), f"{EXTRA_HOOKS}/{name}") for name in options.hooks]
    # Remove our links that are no longer wanted. Links of others stay.
    for name in root.entries(HOOKS):
        path = root.at(f"{HOOKS}/{name}")
        if name not in options.hooks and os.path.islink(path) and os.readlink(path) == f"{EXTRA_HOOKS}/{name}":
            changes.append(link_change(path, None))
    if options.apparmor == "off" and root.exists(APPARMOR):
        changes.append(link_change(root.at(APPARMOR_OFF), APPARMOR))
    elif options.apparmor == "profile":
        changes.append(link_change(root.at(APPARMOR_OFF), None))
    return changes


def missing_hooks(options: EnrootOptions, root: Root) -> list[str]:
    """Return the wanted hooks that enroot's package does not contain."""
    return [name for name in options.hooks if not root.exists(f"{EXTRA_HOOKS}/{name}")]


def credentials_text(options: EnrootOptions) -> str:
    """Return enroot's credentials file: it has commands that print a password, and no password."""
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


def _tmpfiles(options: EnrootOptions) -> str:
    folders = options.shared_folders.items()
    return HEADER + "".join(f"d {path} {mode:04o} root root -\n" for path, mode in folders)


def _environ(variables: dict[str, str]) -> str:
    return HEADER + "".join(f"{name}={variables[name]}\n" for name in sorted(variables))


ENROOT = "/usr/bin/enroot"


@dataclass
class EnrootChanges:
    """What was done, or in check mode would be done.

    :ivar actions: the changes in words, in order.
    :ivar diff: the changes in the form of Ansible's diff.
    """

    actions: list[str] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)

    def note(self, changes: list[FileChange], links: list[LinkChange]) -> None:
        """Add these changes to the result."""
        self.actions += [f"{'remove' if c.after is None else 'write'} {c.path}" for c in changes if c.changes]
        self.actions += [f"{'unlink' if c.after is None else 'link'} {c.path}" for c in links if c.changes]
        self.diff += [*diff_of(changes), *(link.as_diff() for link in links if link.changes)]


def configure(options: EnrootOptions, root: Root, run: Run, check: bool = False, apply: bool = True) -> EnrootChanges:
    """Write enroot's settings. If ``apply`` is true, also apply what the running machine needs: folders, sysctls.

    :raises ConfigError: enroot's package lacks a wanted hook.
    :raises CommandFailed: the kernel refuses a setting.
    :raises OSError: a file cannot be written.
    """
    missing = missing_hooks(options, root) if root.exists(ENROOT) else []
    if missing:
        raise ConfigError(
            f"enroot has no hook {', '.join(missing)} in /usr/share/enroot/hooks.d. Hooks found: "
            f"{', '.join(root.entries('/usr/share/enroot/hooks.d')) or 'none'}."
        )
    done = EnrootChanges()
    files, links = [*file_changes(options, root), *hardware_changes(options, root)], link_changes(options, root)
    done.note(files, links)
    if not check:
        apply_all(files)
        for link in links:
            link.apply()
    if apply:
        done.actions += _folders(options, root, run, check)
        done.actions += _kernel(options.sysctl, root, check)
        if root.is_this_machine and any(link.changes for link in links if link.path.startswith("/etc/apparmor.d/")):
            done.actions += _profile(options, run, check)
    return done


def unconfigure(root: Root, check: bool = False) -> EnrootChanges:
    """Remove the files and links that ``configure`` writes. The kernel keeps its settings until the next boot.

    :raises OSError: a file cannot be removed.
    """
    none = EnrootOptions()
    files = [replace(change, after=None) for change in (*file_changes(none, root), *hardware_changes(none, root))]
    links = link_changes(none, root)
    if _disabled_profile(root):
        links.append(link_change(root.at(APPARMOR_OFF), None))
    done = EnrootChanges()
    done.note(files, links)
    if not check:
        for link in links:
            link.apply()
        apply_all(files)
    return done


def _disabled_profile(root: Root) -> bool:
    """Whether the settings say that the link which disables enroot's AppArmor profile is ours."""
    try:
        options = read_options(root)
    except ConfigError:
        return False
    return options is not None and options.apparmor == "off"


def at_boot(options: EnrootOptions, root: Root, check: bool) -> list[str]:
    """Update the files that depend on the node's hardware; everything else is in the image.

    :return: what was done, in words.
    """
    done, files = EnrootChanges(), hardware_changes(options, root)
    done.note(files, [])
    if not check:
        apply_all(files)
    return done.actions


def _folders(options: EnrootOptions, root: Root, run: Run, check: bool) -> list[str]:
    """Make now what systemd-tmpfiles makes at each boot."""
    lacking = {path: mode for path, mode in options.shared_folders.items() if not _has_mode(root.at(path), mode)}
    if lacking and not check and root.is_this_machine:
        must(run(["systemd-tmpfiles", "--create", root.at(TMPFILES)]))
    return [f"make {path}, mode {mode:04o}" for path, mode in lacking.items()]


def _has_mode(path: str, mode: int) -> bool:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    return found.st_mode & 0o7777 == mode and found.st_uid in (0, os.geteuid())


def _kernel(settings: Mapping[str, str], root: Root, check: bool) -> list[str]:
    """Set those sysctls that this kernel has; a limit that is already higher than wanted stays."""
    actions = []
    for key, value in sorted(settings.items()):
        path = f"/proc/sys/{key.replace('.', '/')}"
        now = root.text(path)
        if now is None or now == value or _is_enough(key, now, value):
            continue
        if not check:
            try:
                with open(root.at(path), "w", encoding="utf-8") as file:
                    file.write(f"{value}\n")
            except OSError as error:
                raise CommandFailed(
                    f"the kernel refuses {key} = {value}, which containers need ({error.strerror}). It is still {now}."
                ) from error
        actions.append(f"set {key} = {value}")
    return actions


def _is_enough(key: str, now: str, value: str) -> bool:
    return key.startswith("user.max_") and now.isdecimal() and value.isdecimal() and int(now) >= int(value)


def _profile(options: EnrootOptions, run: Run, check: bool) -> list[str]:
    if not os.path.exists("/sys/kernel/security/apparmor") or not os.path.exists(APPARMOR):
        return []
    verb = "--replace" if options.apparmor == "profile" else "--remove"
    if not check:
        result = run(["apparmor_parser", verb, APPARMOR])
        if verb == "--replace":
            must(result)
    return [f"apparmor_parser {verb} {APPARMOR}"]
