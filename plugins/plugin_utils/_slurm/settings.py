# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings merged out of the role's layers, the differences between releases and what the user wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .config import ConfigError
from .releases import Release, release_of

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


def of_release(differences: Iterable[Mapping[str, Any]], file: str, release: Release) -> dict[str, Any]:
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


def named_for(settings: dict[str, Any], release: Release) -> dict[str, Any]:
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
