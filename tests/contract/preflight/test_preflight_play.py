# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook preflight: its table, its files, and when it fails."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import preflight

from .conftest import STACK, Subscription

Play = Callable[..., subprocess.CompletedProcess[str]]
SIZES = ("Standard_D8s_v5", "Standard_D4s_v5", "Standard_ND96asr_v4")


@pytest.fixture
def play(
    tmp_path: pathlib.Path,
    azure: Subscription,
    ansible_playbook: Callable[..., subprocess.CompletedProcess[str]],
) -> Play:
    """Run the playbook with variables, in a folder of its own."""

    def run(*arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        given = {
            "hpcai_azure": {
                "subscription_id": azure.simulator.subscription_id,
                "endpoint": azure.simulator.endpoint,
                "auth_source": "token",
                "token": azure.simulator.token,
            },
            "hpcai_stack": {**STACK, "group": azure.group},
            **variables,
        }
        (tmp_path / "stack.json").write_text(json.dumps(given), encoding="utf-8")
        return ansible_playbook(tmp_path, "hpcai.azure.preflight", "-e", "@stack.json", *arguments)

    return run


def price_requests(azure: Subscription) -> int:
    """The number of requests for prices so far."""
    return sum(one["path"] == "/api/retail/prices" for one in azure.simulator.requests())


def test_writes_the_report_and_the_prices_once(tmp_path: pathlib.Path, play: Play, azure: Subscription) -> None:
    # No price of anything but the VM sizes is known.
    row = {"serviceName": "Virtual Machines", "retailPrice": 1.5, "armRegionName": STACK["location"]}
    windows = {**row, "productName": "Virtual Machines Windows", "retailPrice": 9.9}
    azure.limit(prices=[{**one, "armSkuName": size} for size in SIZES for one in (windows, row)])
    # The next page exists only for the other sizes.
    azure.simulator.options.price_page_size = 4
    files = {"preflight_report": "report.json", "preflight_price_file": "prices.json"}
    fetch = {"preflight_fetch_prices": "if_missing", "preflight_prices_endpoint": azure.simulator.endpoint}
    checked = play("--check", **files, **fetch)
    assert checked.returncode == 0, checked.stdout
    assert "changed=1" in checked.stdout
    assert not list(tmp_path.glob("*report*")) + list(tmp_path.glob("prices*"))

    first = play(**files, **fetch)
    assert first.returncode == 0, first.stdout
    assert "Preflight of hpc in southcentralus: 1 unknown, " in first.stdout
    assert "COST PER DAY" in first.stdout
    assert "at least 144.00" in first.stdout
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["verdict"], report["cost"]["total"]["most_complete"]) == ("unknown", False)
    # Each line of the tables is one line on the terminal.
    assert set(preflight.table(report)) <= set(first.stdout.splitlines())
    prices = json.loads((tmp_path / "prices.json").read_text(encoding="utf-8"))
    assert [one["size"] for one in prices["sizes"]] == sorted(SIZES)

    asked = price_requests(azure)
    assert asked
    second = play(**files, **fetch)
    assert "changed=0" in second.stdout
    assert price_requests(azure) == asked


def test_fails_if_something_is_missing(azure: Subscription, play: Play) -> None:
    azure.limit(unregistered=["Microsoft.KeyVault"])
    failed = play()
    assert failed.returncode == 2
    assert "az provider register --namespace Microsoft.KeyVault" in failed.stdout
    assert "Preflight ends with fail of providers, validation. Do what the report above says" in failed.stdout
    assert azure.simulator.token not in failed.stdout


def test_unknown_fails_only_on_request(play: Play) -> None:
    failed = play(preflight_fail_on="unknown")
    assert failed.returncode == 2
    assert "Preflight ends with unknown of cost." in failed.stdout


def test_errors_are_one_line(play: Play, tmp_path: pathlib.Path) -> None:
    failed = play(preflight_price_file="none.json")
    assert failed.returncode == 2
    assert "price_file: none.json does not exist. Create it, or set fetch_prices: if_missing" in failed.stdout
