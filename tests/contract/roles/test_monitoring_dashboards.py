# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Grafana's dashboards are those that panels.yml gives, and conform to Grafana's schema."""

from __future__ import annotations

import enum
import importlib
import json
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

import monitoring_pages
import pytest
from stand_ins.monitor import ROLE

FILES = sorted((ROLE / "files/dashboards").glob("*.json"))
SDK = "grafana_foundation_sdk"
"""Grafana generates these classes from its schema; the last part of the version is that of Grafana."""


def test_the_files_are_those_that_their_sources_give() -> None:
    for name, text in monitoring_pages.files().items():
        assert (ROLE / "files" / name).read_text(encoding="utf-8") == text, "run tests/setup/monitoring_pages.py"


def test_dashboards_are_complete() -> None:
    """What the schema does not say: panels that do not overlap, and variables that exist."""
    files = sorted((ROLE / "files/dashboards").glob("*.json"))
    assert len(files) == len(monitoring_pages.panels()) == 9
    uids = set()
    for file in files:
        board = json.loads(file.read_text(encoding="utf-8"))
        uids.add(board["uid"])
        numbers = [panel["id"] for panel in board["panels"]]
        assert len(set(numbers)) == len(numbers)
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            assert panel["type"] in ("timeseries", "table", "status-history")
            assert panel["targets"][0]["expr"]
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken
            assert all(x < 24 for x, _y in cells)
            taken |= cells
        variables = {one["name"] for one in board["templating"]["list"]}
        used = set(re.findall(r"\$\{?([A-Za-z_]\w*)", json.dumps(board)))
        assert used <= variables
    assert len(uids) == len(files)


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """What of a dashboard the schema does not know, or reads as something else; it may add defaults."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from differences(value, after.get(name), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif before != after:
        yield f"{path}: {before!r} became {after!r}"


def wrong_types(value: Any, hint: Any, path: str) -> Iterator[str]:
    """Values of another type than that of the schema: the SDK reads any value into any field."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(value, dict) and hasattr(hint, "from_json"):
        # The SDK leaves some lists as they are.
        read = hint.from_json(value)
        yield from (f"{path}.{name}: unknown" for name in value if name not in read.to_json())
        value = read
    if origin in (typing.Union, types.UnionType):
        found = [list(wrong_types(value, part, path)) for part in parts]
        yield from [] if any(not one for one in found) else found[0]
    elif origin is typing.Literal:
        yield from [] if value in parts else [f"{path}: {value!r} is none of {parts}"]
    elif origin in (list, dict):
        if not isinstance(value, origin):
            yield f"{path}: {value!r} is no {origin.__name__}"
            return
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for name, member in members:
            yield from wrong_types(member, parts[-1], f"{path}[{name}]")
    elif type(value).__module__.startswith(SDK) and not isinstance(value, enum.Enum):
        # The class of a panel's options and of a query depends on the kind of the panel and of the data source.
        for name, inner in typing.get_type_hints(type(value)).items():
            yield from wrong_types(getattr(value, name), inner, f"{path}.{name}")
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        yield from [] if value in list(hint) or value in [one.value for one in hint] else [f"{path}: {value!r}"]
    elif hint not in (object, Any):
        accepted = (int, float) if hint is float else hint
        wrong = not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool)
        yield from [f"{path}: {value!r} is no {hint}"] if wrong else []


def problems(board: dict[str, Any]) -> list[str]:
    """Everything in a dashboard that does not conform to Grafana's schema."""
    pytest.importorskip(SDK, reason="no grafana-foundation-sdk: make setup installs it")
    plugins, encoder, models = (
        importlib.import_module(f"{SDK}.{name}") for name in ("cog.plugins", "cog.encoder", "models.dashboard")
    )
    plugins.register_default_plugins()
    read = models.Dashboard.from_json(board)
    written = json.loads(encoder.JSONEncoder().encode(read))
    return [*differences(board, written), *wrong_types(read, models.Dashboard, "")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_dashboards_conform_to_grafanas_schema(file: Any) -> None:
    assert problems(json.loads(file.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda board: board.update(refreshes="1m"), ".refreshes: '1m' became None"),
        (lambda board: board.update(title=7), ".title: 7 is no <class 'str'>"),
        (lambda board: board["panels"][0]["gridPos"].update(x="left"), ".panels[0].grid_pos.x"),
        (lambda board: board["panels"][0]["options"].update(show_header=True), ".panels[0].options.show_header"),
        (lambda board: board["panels"][0]["targets"][0].update(expression="up"), ".panels[0].targets[0].expression"),
        (lambda board: board["templating"]["list"][0].update(hide=9), ".templating.list_val[0].hide"),
        (lambda board: board["panels"][0].update(transformations={}), ".panels[0].transformations"),
        (lambda board: board["panels"][1]["transformations"][0].update(ids=""), ".panels[1].transformations[0].ids"),
    ],
    ids=[
        "unknown field",
        "number as title",
        "text as place",
        "unknown option",
        "unknown query",
        "enum",
        "no list",
        "member",
    ],
)
def test_a_dashboard_that_does_not_conform_is_found(change: Any, problem: str) -> None:
    board = json.loads((ROLE / "files/dashboards/hpcai-nodes.json").read_text(encoding="utf-8"))
    change(board)
    assert any(one.startswith(problem) for one in problems(board)), problems(board)
