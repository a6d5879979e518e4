# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is wanted of enroot: the option enroot of the module container_node, also the file of it in /etc/hpcai."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ...forms import (
    Form,
    Malformed,
    boolean,
    choice,
    guid,
    instance_of,
    list_of,
    mapping,
    mapping_of,
    matching,
    not_empty,
    number,
    or_empty,
    record,
    string,
    unquoted_path,
    wrong,
)
from ...machine.config import FOLDER, read_checked
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


def drop_in(settings: Mapping[str, str]) -> str:
    """Return the text of the drop-in."""
    return _HEADER + "".join(f"{key} {settings[key]}\n" for key in sorted(settings))


def _setting(path: str, value: Any) -> str:
    setting = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    if "\n" in setting or not setting:
        raise Malformed(f"{path} must be one line that is not empty, not {setting!r}; null leaves it to enroot.")
    return setting


def _path_setting(path: str, value: Any) -> str:
    setting = _setting(path, value)
    if _HOME.search(setting) or not setting.startswith("/"):
        raise Malformed(
            f"{path} must be an absolute path that is the same without HOME and USER, not {setting!r}: pyxis ends a "
            "job's containers without them, and a path it does not find drains the node. $(id -u) may be in it."
        )
    return setting


def _line(path: str, value: Any) -> str:
    if "\n" in str(value):
        raise wrong(path, "one line", value)
    return str(value)


def _lines(name: Form[str]) -> Form[dict[str, str]]:
    """Lines by name, without those that are null."""
    form = mapping_of(name, _line)
    return lambda path, value: form(path, {key: item for key, item in mapping(path, value).items() if item is not None})


_VARIABLES = _lines(matching(r"[A-Z][A-Z0-9_]*", "capital letters, digits and '_'"))
_FORM = instance_of(
    EnrootOptions,
    {
        # Enroot would pass over a key that it does not know in silence.
        "settings": record({key: _path_setting if key in _PATHS else _setting for key in KNOWN}, null_is_absent=True),
        "hooks": list_of(matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", "the name of a file")),
        "nvidia": _VARIABLES,
        "mellanox": _VARIABLES,
        "local_folders": list_of(unquoted_path),
        "sysctl": _lines(string),
        "apparmor": choice(*APPARMOR),
        "acr_registries": list_of(
            matching(
                r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+",
                "a registry such as training.azurecr.io",
            )
        ),
        "acr_client_id": or_empty(guid),
        "acr_groups": mapping_of(string, list_of(not_empty)),
        "ngc_key_file": or_empty(unquoted_path),
        "cache_path": or_empty(unquoted_path),
        "cache_limit_gib": number(0, above=True),
        "pyxis_runtime_path": or_empty(unquoted_path),
        "root_makes_folders": boolean,
    },
    null_is_absent=True,
)


def options_of(given: Mapping[str, Any]) -> EnrootOptions:
    """Return options out of a module's parameters or the settings file; what is None counts as not given.

    :raises ConfigError: an option that there is not, or a value that it cannot have.
    """
    options = _FORM("", given)
    for registry in options.acr_groups:
        if registry not in options.acr_registries:
            raise Malformed(f"acr_groups has {registry!r}, which is not in acr_registries: add it there.")
    return options


def read_options(root: Root) -> EnrootOptions | None:
    """Return what is kept in /etc/hpcai/containers.json; None where it is not, as no containers are wanted.

    :raises ConfigError: it cannot be used.
    """
    return read_checked(root, CONFIG, lambda _path, kept: options_of(kept))
