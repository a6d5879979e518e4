# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asks Azure, before the first write, whether a stack can be made, and sums up what it costs."""

from __future__ import annotations

import datetime
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils._node.forms import Malformed
from ..module_utils._node.sku.prices import PriceList, as_document, read_prices
from ..plugin_utils._azure.errors import InventoryError
from ..plugin_utils._progress import show
from ..plugin_utils._report.text import as_json, write_if_changed
from ..plugin_utils._stack import preflight
from ..plugin_utils._stack.cost import cost_of, pieces_of
from ..plugin_utils._stack.preflight_ask import ask_azure
from ..plugin_utils._stack.preflight_facts import Answer
from ..plugin_utils._stack.preflight_needs import Needs, needs_of
from ..plugin_utils._stack.prices import ENDPOINT, fetch_prices
from ..plugin_utils._stack.session import SPEC, Session, session

NEVER, IF_MISSING, ALWAYS = "never", "if_missing", "always"
_SPEC: dict[str, dict[str, Any]] = {
    **SPEC,
    "vm_sizes": {"type": "dict", "default": {}},
    "price_file": {"type": "path"},
    "fetch_prices": {"type": "str", "choices": [NEVER, IF_MISSING, ALWAYS], "default": NEVER},
    "currency": {"type": "str", "default": "USD"},
    "prices_endpoint": {"type": "str", "default": ENDPOINT},
    "report": {"type": "path"},
}


class ActionModule(ActionBase):
    """hpcai.azure.azure_preflight."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask everything, judge the answers, and write the files that were asked for."""
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            _SPEC, required_if=[["fetch_prices", IF_MISSING, ["price_file"]], ["fetch_prices", ALWAYS, ["price_file"]]]
        )
        host = str((task_vars or {}).get("inventory_hostname", "localhost"))
        try:
            with session(options, self._loader, host) as opened:
                return self._work(opened, options)
        except (InventoryError, Malformed) as error:
            raise AnsibleError(str(error)) from None
        except OSError as error:
            raise AnsibleError(f"{error.filename}: {error.strerror or error}") from None

    def _work(self, opened: Session, options: Mapping[str, Any]) -> dict[str, Any]:
        needs = needs_of(opened.stack)
        today = datetime.datetime.now(datetime.UTC).date()
        prices, fetched = _prices(opened, options, needs, today)
        opened.say("asking Azure about quota, sizes, images, rights, names and policies")
        facts = ask_azure(opened.arm.clients, opened.arm.deadline, opened.stack, needs)
        cost = cost_of(needs, prices.value)
        verdicts = preflight.judge(needs, facts, options["vm_sizes"], preflight.judge_cost(cost, prices, today))
        report = preflight.document(needs, opened.stack.name, verdicts, cost)
        files = {options["price_file"]: _text(prices.value)} if fetched and prices.value else {}
        if options["report"]:
            files[options["report"]] = as_json(report)
        table = preflight.table(report)
        show(["", *table, ""])
        before = {path: _content(path) for path in files}
        written = [path for path, text in files.items() if write_if_changed(path, text, bool(self._task.check_mode))]
        return {
            "changed": bool(written),
            "verdict": report["verdict"],
            "counts": report["counts"],
            "checks": report["checks"],
            "cost": report["cost"],
            "table": table,
            "files": written,
            "requests": opened.arm.clients.requests,
            "diff": [
                {"before_header": path, "after_header": path, "before": before[path], "after": files[path]}
                for path in written
            ],
        }


def _prices(
    opened: Session, options: Mapping[str, Any], needs: Needs, today: datetime.date
) -> tuple[Answer[PriceList], bool]:
    """Return the prices, and whether they were fetched. Prices that cannot be fetched are unknown.

    :raises InventoryError: there is no price file at the given path.
    :raises Malformed: it is not a price file.
    """
    path = options["price_file"]
    if not path:
        return Answer(), False
    exists = pathlib.Path(path).exists()
    if options["fetch_prices"] == NEVER or (exists and options["fetch_prices"] == IF_MISSING):
        if not exists:
            raise InventoryError(
                f"price_file: {path} does not exist. Create it, or set fetch_prices: {IF_MISSING} to fetch it once."
            )
        return Answer(read_prices(pathlib.Path(path).read_text(encoding="utf-8"), path)), False
    pieces = pieces_of(needs)
    opened.say(f"reading list prices from {options['prices_endpoint']}")
    try:
        return Answer(
            fetch_prices(
                opened.arm.clients,
                needs.location,
                [piece.size for piece in pieces if piece.size],
                [piece.item for piece in pieces if piece.item],
                options["currency"],
                today,
                options["prices_endpoint"].rstrip("/"),
            )
        ), True
    except InventoryError as error:
        return Answer(problem=str(error)), False


def _text(prices: PriceList) -> str:
    return json.dumps(as_document(prices), indent=1) + "\n"


def _content(path: str) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
