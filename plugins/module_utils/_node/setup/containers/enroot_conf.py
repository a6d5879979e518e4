# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Enroot's settings: which keys there are, and the text of the drop-in.

Enroot exports any key that begins with ENROOT_, so a misspelt one goes unnoticed there. Of two drop-ins that set a key
the first one counts, and what is in the environment counts more than either (``config::export`` of enroot 4.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...machine.config import ConfigError

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
