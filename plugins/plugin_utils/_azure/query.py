# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The option `query`: a JMESPath expression over the facts of one instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import InventoryError


def compile_query(expression: str | None) -> Callable[[Mapping[str, Any]], bool]:
    """Return what says whether the facts of an instance are wanted.

    :raises InventoryError: the expression cannot be understood, or nothing here understands any.
    """
    if not expression:
        return lambda _facts: True
    try:
        import jmespath
        from jmespath.exceptions import JMESPathError
    except ImportError as error:
        raise InventoryError("query: the Python package jmespath is missing where Ansible runs; install it.") from error
    try:
        compiled = jmespath.compile(expression)
    except JMESPathError as error:
        raise InventoryError(f"query: {expression!r} is no JMESPath expression: {_one_line(error)}") from error

    def wants(facts: Mapping[str, Any]) -> bool:
        try:
            result = compiled.search(dict(facts))
        except JMESPathError as error:
            raise InventoryError(f"query: {expression!r} fails on {facts['azure_id']}: {_one_line(error)}") from error
        # JMESPath's own idea of truth: a number is true, even 0.
        return result is not None and result is not False and result not in ("", [], {})

    return wants


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
