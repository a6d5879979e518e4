# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The options for enroot: the option enroot of the module container_node, and its settings file in /etc/hpcai."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ...forms import (
    Form,
    Malformed,
    arguments_of,
    as_argument,
    boolean,
    choice,
    defaults_of,
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
"""The path that enroot gets if the user has no folder, or another user has made it."""
_USER_PATHS = ("ENROOT_RUNTIME_PATH", "ENROOT_CACHE_PATH", "ENROOT_DATA_PATH")
_USER_FOLDER = "/user-$(id -u)"
_OWN_FOLDER = "mkdir -m 0700 {path} 2>/dev/null; test ! -h {path} && test -O {path}"
"""In the shell: make the folder, and check that it belongs to this user. The parent's sticky bit protects it then."""


@dataclass(frozen=True)
class EnrootOptions:
    """See the option enroot of the module container_node.

    :ivar settings: settings in enroot.conf, as strings.
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
        """The parents of folders named ``user-UID``: those in enroot's settings, and the importer's."""
        paths = [self.settings.get(name, "") for name in _USER_PATHS]
        parents = [path[: -len(_USER_FOLDER)] for path in paths if path.endswith(_USER_FOLDER)]
        return tuple(dict.fromkeys(filter(None, [*parents, self.cache_path])))

    @property
    def enroot_settings(self) -> dict[str, str]:
        """The settings as enroot reads them.

        pyxis runs ``enroot list`` as the job's user in each epilog, even if the job's prolog never ran, for example on
        a node that did not answer. enroot first creates its folders. If only root can create them, that fails, and
        Slurm drains the node. Therefore the settings fall back to an empty folder, which contains no containers.

        If root creates no folders, any user can create a folder with another user's name, or a link. enroot would use
        it, and its owner could change this user's containers.
        """
        found = dict(self.settings)
        for name in _USER_PATHS:
            path = found.get(name, "")
            if path.endswith(_USER_FOLDER):
                own = f"test -d {path}" if self.root_makes_folders else _OWN_FOLDER.format(path=path)
                found[name] = f"$({own} && echo {path} || echo {EMPTY})"
        return found

    @property
    def shared_folders(self) -> dict[str, int]:
        """The folders outside the scratch that all users share, with their permissions."""
        folders = {path: self._mode_of(path) for path in (RUNTIME_PARENT, *self.local_folders)}
        return {**folders, EMPTY: EMPTY_MODE}

    def _mode_of(self, path: str) -> int:
        """The permissions of a folder: closed if root creates its content."""
        above = any(parent == path or parent.startswith(f"{path}/") for parent in self.user_folder_parents)
        return CLOSED if self.root_makes_folders and above else STICKY

    @property
    def data_folder(self) -> str:
        """The parent of the users' folders with containers; empty if the path has another form."""
        parent, slash, last = self.settings.get("ENROOT_DATA_PATH", "").rpartition("/")
        return parent if slash and last in ("user-$(id -u)", "$(id -u)") else ""

    def remembered(self) -> dict[str, Any]:
        """Return the options as /etc/hpcai/containers.json stores them."""
        kept = {known.name: getattr(self, known.name) for known in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


# Enroot's settings: the known keys, and the text of the drop-in.
#
# Enroot exports any key that begins with ENROOT_, so it does not report a misspelt one. If two drop-ins set a key, the
# first one wins, and the environment wins over both (``config::export`` of enroot 4.1).

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
"""The keys in conf/enroot.conf.in at v4.1.2, without ENROOT_."""
OTHERS = ("SSL_CERT_DIR", "SSL_CERT_FILE", "all_proxy", "no_proxy", "http_proxy", "https_proxy")
KNOWN = (*(f"ENROOT_{key}" for key in KEYS), *OTHERS)
_PATHS = ("ENROOT_RUNTIME_PATH", "ENROOT_CACHE_PATH", "ENROOT_DATA_PATH", "ENROOT_TEMP_PATH")
# pyxis clears HOME in its epilog, so these variables give another path there, and a missing path drains the node.
_HOME = re.compile(r"\$\{?(HOME|XDG_|USER\b|LOGNAME\b)|~")


def drop_in(settings: Mapping[str, str]) -> str:
    """Return the text of the drop-in."""
    return _HEADER + "".join(f"{key} {settings[key]}\n" for key in sorted(settings))


def _setting(path: str, value: Any) -> str:
    setting = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    if "\n" in setting or not setting:
        raise Malformed(f"{path} must be one line that is not empty, not {setting!r}. Set null for enroot's default.")
    return setting


def _path_setting(path: str, value: Any) -> str:
    setting = _setting(path, value)
    if _HOME.search(setting) or not setting.startswith("/"):
        raise Malformed(
            f"{path} must be an absolute path without HOME and USER, not {setting!r}: pyxis removes a job's "
            "containers without these variables, and a missing path drains the node. $(id -u) is allowed."
        )
    return setting


def _line(path: str, value: Any) -> str:
    if "\n" in str(value):
        raise wrong(path, "one line", value)
    return str(value)


def _lines(name: Form[str]) -> Form[dict[str, str]]:
    """A mapping of names to lines, without those that are null."""
    form = mapping_of(name, _line)
    return as_argument(
        lambda path, value: form(path, {key: item for key, item in mapping(path, value).items() if item is not None}),
        type="dict",
    )


_VARIABLES = _lines(matching(r"[A-Z][A-Z0-9_]*", "capital letters, digits and '_'"))
_FORMS: Mapping[str, Form[Any]] = {
    # Checked here, because enroot would silently ignore an unknown key.
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
    "ngc_key_file": as_argument(or_empty(unquoted_path), type="path", no_log=False),
    "cache_path": or_empty(unquoted_path),
    "cache_limit_gib": number(0, above=True),
    "pyxis_runtime_path": or_empty(unquoted_path),
    "root_makes_folders": boolean,
}
ARGUMENTS = arguments_of(_FORMS, defaults_of(EnrootOptions))
"""The module's option enroot."""
_FORM = instance_of(EnrootOptions, _FORMS, null_is_absent=True)


def options_of(given: Mapping[str, Any]) -> EnrootOptions:
    """Return options from a module's parameters or the settings file; None counts as not given.

    :raises ConfigError: an option is unknown, or has an invalid value.
    """
    options = _FORM("", given)
    for registry in options.acr_groups:
        if registry not in options.acr_registries:
            raise Malformed(f"acr_groups has {registry!r}, which is not in acr_registries. Add it there.")
    return options


def read_options(root: Root) -> EnrootOptions | None:
    """Return the options from /etc/hpcai/containers.json; None without this file, when no containers are wanted.

    :raises ConfigError: the file is invalid.
    """
    return read_checked(root, CONFIG, lambda _path, kept: options_of(kept))
