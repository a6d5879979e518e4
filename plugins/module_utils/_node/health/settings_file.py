# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Reads the site's settings from their file, and finds invalid names and values.

Under Ansible an invalid setting is an error before anything is written; on a node, no check is judged then. The valid
names are in the manifests of the checks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..machine.config import ConfigError, read_config
from ..machine.root import Root
from . import catalog
from .settings import CONFIG, FILE, Settings, is_like

OFF = "off"
"""The key of the checks that are turned off. An inventory uses another name, because YAML reads ``off`` as false."""


_MEND = "correct health_checks_config in the inventory and run the playbook again"


def read_settings(root: Root) -> Settings:
    """Return the site's settings; the defaults if there is no file.

    :raises ConfigError: the file cannot be used, or has invalid names or values; the message says what to do.
    """
    settings = read_config(root, CONFIG) or {}
    wrong = list(problems_of(settings))
    if wrong:
        raise ConfigError(f"{root.at(FILE)}: {'; '.join(wrong)}: {_MEND}.")
    return Settings(
        off=tuple(settings.get(OFF) or ()),
        warn_only=tuple(settings.get("warn_only") or ()),
        limits=settings.get("limits") or {},
        options=settings.get("options") or {},
        prometheus=settings.get("prometheus"),
    )


def problems_of(settings: Mapping[str, Any], off: str = OFF) -> Iterator[str]:
    """Yield a message for each invalid setting; it begins with the key.

    :param off: the name of the key ``OFF``.
    """
    yield from unknown_names("", settings, (off, "warn_only", "limits", "options", "prometheus"), "key")
    for key in (off, "warn_only"):
        listed = settings.get(key) or []
        if _is_list_of_strings(listed):
            yield from unknown_names(f"{key}: ", listed, catalog.NAMES, "check")
        else:
            yield f"{key} is not a list of check names"
    if settings.get("limits") or settings.get("options"):
        # Loaded only if needed, because a job waits for its prolog, which otherwise loads the checks of its tier only.
        checks = catalog.all_checks()
        limits = dict.fromkeys(name for check in checks for name in check.limits)
        yield from _limit_problems(settings.get("limits") or {}, limits)
        yield from _option_problems(settings.get("options") or {}, {check.name: check.options for check in checks})
    folder = settings.get("prometheus")
    if folder is not None and (not isinstance(folder, str) or (folder and not folder.startswith("/"))):
        yield f"prometheus is {folder!r}, but must be the absolute path of a folder"


def _limit_problems(limits: object, known: Collection[str]) -> Iterator[str]:
    if not isinstance(limits, Mapping):
        yield "limits is not a mapping"
        return
    yield from unknown_names("limits: ", limits, known, "limit")
    for name, value in limits.items():
        if not is_like(value, 0.0):
            yield f"limits.{name} is {value!r}, but must be a finite number"


def _option_problems(options: object, known: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if not isinstance(options, Mapping):
        yield "options is not a mapping"
        return
    yield from unknown_names("options: ", options, known, "check")
    for check, given in options.items():
        defaults = known.get(check)
        if not isinstance(given, Mapping):
            yield f"options.{check} is not a mapping"
        elif defaults is not None:
            yield from unknown_names(f"options.{check}: ", given, defaults, "option")
            for name, value in given.items():
                if name in defaults and not is_like(value, defaults[name]):
                    yield f"options.{check}.{name} is {value!r}, but must be like {defaults[name]!r}"


def unknown_names(where: str, names: Collection[object], known: Collection[str], what: str) -> Iterator[str]:
    """Yield a message for each unknown name, with the most similar known name.

    :param where: the beginning of the message.
    :param what: the kind of the names, e.g. ``check``.
    """
    for name in names:
        if name not in known:
            yield f"{where}there is no {what} {name}{_suggestion(str(name), known)}"


def _suggestion(name: str, known: Collection[str]) -> str:
    # Imported here, because a job waits for its prolog.
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f", did you mean {near[0]}?"
    return f"; valid: {', '.join(known)}" if known else ", and there are no others"


def _is_list_of_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
