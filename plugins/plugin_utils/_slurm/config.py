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
    shown,
)


def render(settings: Mapping[str, Any]) -> str:
    """Return ``Key=value`` lines in the mapping's order.

    A key that is null is left out. A list of scalars is joined with commas; an empty one is left out. True and false
    become YES and NO. A text with a blank is quoted: Slurm's parser takes the blank for the end of the value.

    :raises ConfigError: a value is a mapping, or holds a line break, which would smuggle in another line, or a ``#``,
        after which Slurm would read no further.
    """
    return "".join(f"{key}={_quoted(_text(key, value))}\n" for key, value in settings.items() if not _absent(value))


def render_line(settings: Mapping[str, Any]) -> str:
    """Return one line of ``Key=value`` words, as node and partition lines have them; rules as for ``render``."""
    return " ".join(f"{key}={_quoted(_text(key, value))}" for key, value in settings.items() if not _absent(value))


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, (list, tuple)) and not value)


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(key, item) for item in value)
    if isinstance(value, Mapping):
        raise ConfigError(f"{key} is a mapping; Slurm takes a text, a number, a boolean or a list of them.")
    text = str(value)
    if "\n" in text or "\r" in text:
        raise ConfigError(f"{key} holds a line break, which Slurm's configuration files cannot have in a value.")
    if re.search(r"(?<!\\)#", text):
        raise ConfigError(f"{key} holds a '#', which starts a comment: write it as '\\#'.")
    return text


def _quoted(text: str) -> str:
    return f'"{text}"' if re.search(r"\s", text) and not text.startswith('"') else text


def release_of(text: Any) -> Release:
    """Return the release that ``22.05`` or a whole version such as ``22.05.8`` names.

    :raises ConfigError: nothing or something else is given, or a release that is too old.
    """
    if not text:
        raise ConfigError(
            "it is not known which Slurm the controller runs: set slurm_release, for example to '24.11' "
            "(sinfo --version says it)."
        )
    match = re.fullmatch(r"(\d{2})\.(\d{2})([.\-~].*)?", str(text).strip())
    if match is None:
        raise ConfigError(f"slurm_release is {text!r}: it must be a release such as '24.11', in quotes.")
    release = (int(match[1]), int(match[2]))
    if release < OLDEST:
        raise ConfigError(f"slurm_release is {text}: releases before {shown(OLDEST)} are not supported.")
    return release


def check_keys(file: str, keys: Iterable[str], release: Release) -> None:
    """Refuse keys that this release does not know.

    :raises ConfigError: one is not known; the message says which releases know it.
    """
    for key in keys:
        first, gone = came_with(file, key) or release, gone_since(file, key)
        if release < first:
            raise ConfigError(
                f"{file}: {key} came with Slurm {shown(first)}, and slurm_release is {shown(release)}: leave it out."
            )
        if gone and release >= gone:
            raise ConfigError(
                f"{file}: {key} is gone since Slurm {shown(gone)}, and slurm_release is {shown(release)}: leave it out."
            )


# RELEASE_NOTES of 25.11: 'Renamed "job_container" plugin interface to "namespace"'; read_config.c of 25.11 warns that
# the old name "will be removed in a future release".
_NAMESPACE: Release = (25, 11)


def merged(layers: Iterable[Mapping[str, Any]], by_user: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings: later layers win key by key, lists append; what the user sets replaces, and null deletes. In
    a layer, null says nothing.

    Slurm does not tell keys by case, so ``schedulertype`` of the user's replaces the role's ``SchedulerType``.
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
    """Return what one release needs in one file.

    :param differences: mappings with ``settings`` for ``file``, from the release ``since`` to the one before ``until``.
    """
    layers = [
        each["settings"]
        for each in differences
        if each["file"] == file
        and release >= release_of(each.get("since", "22.05"))
        and (not each.get("until") or release < release_of(each["until"]))
    ]
    return merged(layers, {})


def with_names_of(settings: dict[str, Any], release: Release) -> dict[str, Any]:
    """Return the role's settings with the names that this release has for them."""
    if release < _NAMESPACE or "JobContainerType" not in settings:
        return settings
    renamed = str(settings["JobContainerType"]).replace("job_container/", "namespace/")
    return {
        "NamespaceType" if key == "JobContainerType" else key: renamed if key == "JobContainerType" else value
        for key, value in settings.items()
    }


def job_container_lines(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of job_container.conf. What belongs to a folder stands on its line, which has to begin with
    ``NodeName`` or ``BasePath`` (job_container.conf(5)); ``InitScript`` is known on a line of its own only.

    :raises ConfigError: there are settings, but no ``BasePath``.
    """
    if not settings:
        return []
    if not settings.get("BasePath"):
        raise ConfigError(
            "job_container.conf has no BasePath: set it in slurm_job_container_conf, or set nothing there."
        )
    first = [key for key in ("NodeName", "BasePath") if key in settings]
    rest = [key for key in settings if key not in (*first, "InitScript")]
    alone = [{"InitScript": settings["InitScript"]}] if settings.get("InitScript") else []
    return [*alone, {key: settings[key] for key in (*first, *rest)}]
