# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is wanted of enroot: the option enroot of the module container_node, also the file of it in /etc/hpcai."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ...forms import GUID
from ...machine.config import FOLDER, ConfigError, read_config
from ...machine.root import Root

CONFIG = "containers"
SETTINGS = f"{FOLDER}/{CONFIG}.json"

APPARMOR = ("leave", "profile", "off")
STICKY, CLOSED = 0o1777, 0o755
RUNTIME_PARENT = "/run/enroot"
EMPTY, EMPTY_MODE = f"{RUNTIME_PARENT}/empty", 0o555
"""What enroot is given for a user's folder that root has not made."""
_USER_PATHS = ("ENROOT_RUNTIME_PATH", "ENROOT_CACHE_PATH", "ENROOT_DATA_PATH")
_USER_FOLDER = "/user-$(id -u)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_PATH = re.compile(r"/[A-Za-z0-9._/@+-]+")
_REGISTRY = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+")


@dataclass(frozen=True)
class EnrootOptions:
    """See the option enroot of the module container_node.

    :ivar settings: of enroot.conf, as text.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    hooks: Sequence[str] = ()
    nvidia: Mapping[str, str] = field(default_factory=dict)
    mellanox: Mapping[str, str] = field(default_factory=dict)
    local_folders: Sequence[str] = ()
    sysctl: Mapping[str, str] = field(default_factory=dict)
    apparmor: str = "leave"
    acr_registries: Sequence[str] = ()
    acr_client_id: str = ""
    acr_groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ngc_key_file: str = ""
    cache_path: str = ""
    cache_limit_gib: float = 200
    pyxis_runtime_path: str = ""
    root_makes_folders: bool = False

    @property
    def user_folder_parents(self) -> tuple[str, ...]:
        """The folders of users' folders named ``user-UID``: those of enroot's settings, and the importer's."""
        paths = [self.settings.get(name, "") for name in _USER_PATHS]
        parents = [path[: -len(_USER_FOLDER)] for path in paths if path.endswith(_USER_FOLDER)]
        return tuple(dict.fromkeys(filter(None, [*parents, self.cache_path])))

    @property
    def enroot_settings(self) -> dict[str, str]:
        """What enroot reads of the settings.

        pyxis runs ``enroot list`` as the job's user in each epilog, also where the job's prolog never ran, as on a node
        that did not answer. enroot makes its folders first; where only root can, that would fail, and Slurm would drain
        the node. An empty folder has no containers.
        """
        found = dict(self.settings)
        for name in _USER_PATHS if self.root_makes_folders else ():
            path = found.get(name, "")
            if path.endswith(_USER_FOLDER):
                found[name] = f"$(test -d {path} && echo {path} || echo {EMPTY})"
        return found

    @property
    def shared_folders(self) -> dict[str, int]:
        """The folders outside the scratch that all users share, with their permissions."""
        folders = {path: self._mode_of(path) for path in (RUNTIME_PARENT, *self.local_folders)}
        return {**folders, EMPTY: EMPTY_MODE} if self.root_makes_folders else folders

    def _mode_of(self, path: str) -> int:
        """The permissions of a folder: closed if root makes what is in it."""
        above = any(parent == path or parent.startswith(f"{path}/") for parent in self.user_folder_parents)
        return CLOSED if self.root_makes_folders and above else STICKY

    @property
    def data_folder(self) -> str:
        """The folder of users' folders with containers; empty where it is not laid out like that."""
        parent, slash, last = self.settings.get("ENROOT_DATA_PATH", "").rpartition("/")
        return parent if slash and last in ("user-$(id -u)", "$(id -u)") else ""

    def remembered(self) -> dict[str, Any]:
        """Return what /etc/hpcai/containers.json holds of them."""
        kept = {known.name: getattr(self, known.name) for known in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


def options_of(given: Mapping[str, Any]) -> EnrootOptions:
    """Return options out of a module's parameters or the settings file; what is None counts as not given.

    :raises ConfigError: an option that there is not, or a value that it cannot have.
    """
    known = [known.name for known in fields(EnrootOptions)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(f"unknown options: {', '.join(unknown)}; known are {', '.join(sorted(known))}.")
    stated = {name: value for name, value in given.items() if value is not None}
    stated["settings"] = check_settings(stated.get("settings", {}))
    for name in ("nvidia", "mellanox", "sysctl"):
        stated[name] = {str(key): str(value) for key, value in stated.get(name, {}).items() if value is not None}
    options = EnrootOptions(**stated)
    if options.apparmor not in APPARMOR:
        raise ConfigError(f"apparmor must be one of {', '.join(APPARMOR)}, not {options.apparmor!r}.")
    _check_forms(options)
    if not isinstance(options.root_makes_folders, bool):
        raise ConfigError(f"root_makes_folders must be true or false, not {options.root_makes_folders!r}.")
    if options.acr_client_id and not GUID.fullmatch(options.acr_client_id):
        raise ConfigError("acr_client_id is no client id: it has the form of a GUID, or is empty.")
    _check_groups(options)
    if not options.cache_limit_gib > 0:
        raise ConfigError(f"cache_limit_gib must be more than 0, not {options.cache_limit_gib}.")
    return options


def _check_forms(options: EnrootOptions) -> None:
    for name, words, form in (
        ("hooks", "file names", _NAME),
        ("local_folders", "absolute paths", _PATH),
        ("acr_registries", "registries such as training.azurecr.io", _REGISTRY),
    ):
        for value in getattr(options, name):
            if not isinstance(value, str) or not form.fullmatch(value):
                raise ConfigError(f"{name} must be a list of {words}, and has {value!r}.")
    for name in ("nvidia", "mellanox"):
        for key, value in getattr(options, name).items():
            if not _VARIABLE.fullmatch(key) or "\n" in value:
                raise ConfigError(
                    f"{name} has {key!r}: names are capital letters, digits and '_', values are one line."
                )
    for name in ("ngc_key_file", "cache_path", "pyxis_runtime_path"):
        value = getattr(options, name)
        if value and not _PATH.fullmatch(value):
            raise ConfigError(f"{name} must be an absolute path of letters, digits and ._/@+-, not {value!r}.")


def _check_groups(options: EnrootOptions) -> None:
    for registry, groups in options.acr_groups.items():
        if registry not in options.acr_registries:
            raise ConfigError(f"acr_groups has {registry!r}, which is not in acr_registries: add it there.")
        if not isinstance(groups, list) or not all(isinstance(name, str) and name for name in groups):
            raise ConfigError(f"acr_groups of {registry} must be a list of names of groups, not {groups!r}.")


def read_options(root: Root) -> EnrootOptions | None:
    """Return what is kept in /etc/hpcai/containers.json; None where it is not, as no containers are wanted.

    :raises ConfigError: it cannot be used.
    """
    kept = read_config(root, CONFIG)
    return None if kept is None else options_of(kept)


# Enroot's settings: which keys there are, and the text of the drop-in.
#
# Enroot exports any key that begins with ENROOT_, so a misspelt one goes unnoticed there. Of two drop-ins that set a
# key the first one counts, and what is in the environment counts more than either (``config::export`` of enroot 4.1).

DROP_IN = "/etc/enroot/enroot.conf.d/50-hpcai.conf"
_HEADER = "# Written by hpcai.azure.container_node, which overwrites it.\n"

KEYS = (
    "LIBRARY_PATH",
    "SYSCONF_PATH",
    "RUNTIME_PATH",
    "CONFIG_PATH",
    "CACHE_PATH",
    "DATA_PATH",
    "TEMP_PATH",
    "GZIP_PROGRAM",
    "ZSTD_OPTIONS",
    "SQUASH_OPTIONS",
    "ROOTFS_WRITABLE",
    "NATIVE_OVERLAYFS",
    "REMAP_ROOT",
    "MAX_PROCESSORS",
    "MAX_CONNECTIONS",
    "CONNECT_TIMEOUT",
    "TRANSFER_TIMEOUT",
    "TRANSFER_RETRIES",
    "LOGIN_SHELL",
    "ALLOW_SUPERUSER",
    "ALLOW_HTTP",
    "BUNDLE_ALL",
    "BUNDLE_CHECKSUM",
    "MOUNT_HOME",
    "RESTRICT_DEV",
    "FORCE_OVERRIDE",
)
"""Those of conf/enroot.conf.in at v4.1.2, without ENROOT_."""
OTHERS = ("SSL_CERT_DIR", "SSL_CERT_FILE", "all_proxy", "no_proxy", "http_proxy", "https_proxy")
KNOWN = (*(f"ENROOT_{key}" for key in KEYS), *OTHERS)
_PATHS = ("ENROOT_RUNTIME_PATH", "ENROOT_CACHE_PATH", "ENROOT_DATA_PATH", "ENROOT_TEMP_PATH")
# pyxis clears HOME in its epilog, and a path that is another one there drains the node.
_HOME = re.compile(r"\$\{?(HOME|XDG_|USER\b|LOGNAME\b)|~")


def check_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings as text, without those that are None.

    :raises ConfigError: a key that enroot does not know, a value of several lines, or a path that hangs on HOME.
    """
    unknown = sorted(key for key in settings if key not in KNOWN)
    if unknown:
        raise ConfigError(
            f"enroot knows no setting {', '.join(unknown)}, and would pass over it in silence: "
            f"there are {', '.join(KNOWN)}."
        )
    checked = {}
    for key, value in settings.items():
        if value is None:
            continue
        text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
        if "\n" in text or not text:
            raise ConfigError(f"{key} must be one line that is not empty, not {text!r}; null leaves it to enroot.")
        if key in _PATHS and (_HOME.search(text) or not text.startswith("/")):
            raise ConfigError(
                f"{key} must be an absolute path that is the same without HOME and USER, not {text!r}: pyxis ends a "
                "job's containers without them, and a path it does not find drains the node. $(id -u) may be in it."
            )
        checked[key] = text
    return checked


def drop_in(settings: Mapping[str, str]) -> str:
    """Return the text of the drop-in."""
    return _HEADER + "".join(f"{key} {settings[key]}\n" for key in sorted(settings))
