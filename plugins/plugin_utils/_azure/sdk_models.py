# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SDK's classes for answers, made safe for several threads.

Each of them is completed when its first object is made. Where threads do that at the same time, one of them fails, the
SDK hides it, and objects within the answer stay plain dicts, on the first answers only: "'dict' object has no attribute
'primary'", now and then (Azure/azure-sdk-for-python issue 47426, there in azure-mgmt-network 33.1; mended for generated
code in microsoft/typespec pull request 11236). So one thread at a time completes classes.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

_ONE_AT_A_TIME = threading.RLock()
_PLACES = ("_utils.model_base", "_model_base")
"""Where packages of the SDK have the base of their classes; older ones have none, and nothing to be completed."""


def make_safe(package: str) -> None:
    """Let one thread at a time complete the classes of a package, e.g. ``azure.mgmt.network``, that is imported."""
    for place in _PLACES:
        try:
            base = importlib.import_module(f"{package}.{place}").Model
        except (ImportError, AttributeError):
            continue
        if hasattr(base, "_calculated") and not hasattr(base, "_hpcai_safe"):
            guard(base)


def guard(base: Any) -> None:
    """Let one thread at a time complete the classes that are derived from this one."""
    make = base.__new__

    def make_one(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if f"{cls.__module__}.{cls.__qualname__}" in cls._calculated:
            return make(cls, *args, **kwargs)
        with _ONE_AT_A_TIME:
            return make(cls, *args, **kwargs)

    base.__new__ = make_one
    base._hpcai_safe = True
