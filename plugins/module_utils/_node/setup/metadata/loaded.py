# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether the kernel has the rules of the file, as nft lists them."""

from __future__ import annotations

import json
from typing import Any

from ...machine.run import Run
from .rules import TABLE, comments_of

LIST = ("nft", "--json", "list", "table", "inet", TABLE)
_HOOKS = ("forward", "output")


class CannotTell(RuntimeError):
    """nft does not show the rules; the message says why."""


def difference(text: str, run: Run) -> str:
    """Return how the kernel's table differs from the one in ``text``; empty where it does not.

    Rules are compared by their comments, which nft shows as they were given: it writes the rules themselves in another
    form from version to version.

    :raises CannotTell: nft is not installed, may not look, or answers something else.
    """
    answer = run(LIST)
    if answer.rc != 0:
        said = (answer.stderr.strip() or answer.stdout.strip() or f"exit status {answer.rc}").splitlines()[0]
        if "No such file or directory" in said:
            return f"the kernel has no table inet {TABLE}"
        raise CannotTell(f"nft does not show the table inet {TABLE}: {said}")
    try:
        shown = [item for item in json.loads(answer.stdout)["nftables"] if isinstance(item, dict)]
        table = next(item["table"] for item in shown if "table" in item)
        chains = [item["chain"] for item in shown if "chain" in item]
        found = [_comment(item["rule"]) for item in shown if "rule" in item]
        hooks = sorted(chain["hook"] for chain in chains if "hook" in chain)
    except (ValueError, LookupError, TypeError, StopIteration):
        raise CannotTell(f"'{' '.join(LIST)}' answers with something that is not its JSON") from None
    if "dormant" in str(table.get("flags", "")):
        return f"the table inet {TABLE} is dormant"
    wanted = comments_of(text)
    if sorted(found) != sorted(wanted) or tuple(hooks) != _HOOKS:
        missing = [comment for comment in wanted if comment not in found]
        more = [comment for comment in found if comment not in wanted]
        words = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {', '.join(more)}"] * bool(more)
        return f"the table inet {TABLE} has other rules than the file ({'; '.join(words) or 'chains'})"
    return ""


def _comment(rule: dict[str, Any]) -> str:
    return str(rule.get("comment", "a rule without comment"))
