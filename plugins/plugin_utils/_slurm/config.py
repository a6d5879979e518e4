# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of Slurm's configuration files: merged from layers, checked against a release, and rendered as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.releases import (
    OLDEST,
    Release,
    came_with,
    gone_since,
    has_come,
    shown,
)


def render(settings: Mapping[str, Any]) -> str:
    """Return ``Key=value`` lines in the mapping's order.

    Null and empty lists are omitted. A list of scalars is joined with commas. True and false become YES and NO. A text
    with a space is quoted, because a space ends the value for Slurm's parser.

    :raises ConfigError: a value is a mapping, or contains a line break, which would inject another line, or a ``#``,
        which would start a comment.
    """
    return "".join(f"{key}={_quoted(_text(key, value))}\n" for key, value in settings.items() if not _absent(value))


def render_line(settings: Mapping[str, Any]) -> str:
    """Return one line of ``Key=value`` words, as for nodes and partitions. The rules are those of ``render``."""
    return " ".join(f"{key}={_quoted(_text(key, value))}" for key, value in settings.items() if not _absent(value))


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, (list, tuple)) and not value)


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(key, item) for item in value)
    if isinstance(value, Mapping):
        raise ConfigError(f"{key} is a mapping, but must be a text, a number, a boolean or a list of them.")
    text = str(value)
    if "\n" in text or "\r" in text:
        raise ConfigError(f"{key} contains a line break, which Slurm's configuration files do not allow in a value.")
    if re.search(r"(?<!\\)#", text):
        raise ConfigError(f"{key} contains a '#', which starts a comment: write it as '\\#'.")
    return text


def _quoted(text: str) -> str:
    return f'"{text}"' if re.search(r"\s", text) and not text.startswith('"') else text


def release_of(text: Any) -> Release:
    """Return the release of a text such as ``22.05`` or a full version such as ``22.05.8``.

    :raises ConfigError: the text is empty or invalid, or the release is too old.
    """
    if not text:
        raise ConfigError(
            "the Slurm release of the controller is unknown: set slurm_release, for example to '24.11' "
            "(sinfo --version shows it)."
        )
    match = re.fullmatch(r"(\d{2})\.(\d{2})([.\-~].*)?", str(text).strip())
    if match is None:
        raise ConfigError(f"slurm_release is {text!r}: it must be a release such as '24.11', in quotes.")
    release = (int(match[1]), int(match[2]))
    if release < OLDEST:
        raise ConfigError(f"slurm_release is {text}: releases before {shown(OLDEST)} are not supported.")
    return release


def check_keys(file: str, keys: Iterable[str], release: Release) -> None:
    """Refuse keys that this release does not support.

    :raises ConfigError: a key is not supported. The message names the releases that support it.
    """
    for key in keys:
        first, gone = came_with(file, key) or release, gone_since(file, key)
        if release < first:
            raise ConfigError(
                f"{file}: {key} was added in Slurm {shown(first)}, but slurm_release is {shown(release)}: remove it."
            )
        if gone and release >= gone:
            raise ConfigError(
                f"{file}: {key} was removed in Slurm {shown(gone)}, and slurm_release is {shown(release)}: remove it."
            )


def merged(layers: Iterable[Mapping[str, Any]], by_user: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merged settings.

    Later layers override earlier ones key by key, and lists are appended. Null in a layer is ignored. The user's
    settings replace those of the layers, and null removes a setting. Slurm ignores the case of keys, so the user's
    ``schedulertype`` replaces the role's ``SchedulerType``.
    """
    settings: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if value is None:
                continue
            before = settings.get(key)
            if isinstance(before, list) and isinstance(value, list):
                value = [item for item in before if item not in value] + value
            settings[key] = value
    names = {key.lower(): key for key in settings}
    settings.update({names.get(str(key).lower(), str(key)): value for key, value in by_user.items()})
    return {key: value for key, value in settings.items() if value is not None}


def settings_of_release(differences: Iterable[Mapping[str, Any]], file: str, release: Release) -> dict[str, Any]:
    """Return the settings of one file that are specific to a release.

    :param differences: mappings with ``settings`` for ``file``, from the release ``since`` until before ``until``.
    """
    layers = [
        each["settings"]
        for each in differences
        if each["file"] == file
        and release >= release_of(each.get("since", "22.05"))
        and (not each.get("until") or release < release_of(each["until"]))
    ]
    return merged(layers, {})


def known_to(file: str, settings: Mapping[str, Any], release: Release) -> dict[str, Any]:
    """Return the role's settings without the keys that this release does not know yet."""
    return {key: value for key, value in settings.items() if has_come(file, key, release)}


def with_names_of(settings: dict[str, Any], release: Release) -> dict[str, Any]:
    """Return the role's settings with the names that this release uses.

    RELEASE_NOTES of 25.11: 'Renamed "job_container" plugin interface to "namespace"'; read_config.c of 25.11 warns that
    the old name "will be removed in a future release".
    """
    if not has_come("slurm.conf", "NamespaceType", release) or "JobContainerType" not in settings:
        return settings
    renamed = str(settings["JobContainerType"]).replace("job_container/", "namespace/")
    return {
        "NamespaceType" if key == "JobContainerType" else key: renamed if key == "JobContainerType" else value
        for key, value in settings.items()
    }


def job_container_lines(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of job_container.conf.

    The settings of a folder must be on one line that starts with ``NodeName`` or ``BasePath`` (job_container.conf(5)).
    ``InitScript`` is only allowed on its own line.

    :raises ConfigError: there are settings, but no ``BasePath``.
    """
    if not settings:
        return []
    if not settings.get("BasePath"):
        raise ConfigError(
            "job_container.conf has no BasePath: set it in slurm_job_container_conf, or leave that variable empty."
        )
    first = [key for key in ("NodeName", "BasePath") if key in settings]
    rest = [key for key in settings if key not in (*first, "InitScript")]
    alone = [{"InitScript": settings["InitScript"]}] if settings.get("InitScript") else []
    return [*alone, {key: settings[key] for key in (*first, *rest)}]
