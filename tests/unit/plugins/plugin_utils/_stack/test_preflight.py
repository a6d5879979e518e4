# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preflight report: the worst first, what to do, and the cost as an estimate."""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from stand_ins.preflight import GPU, facts, full_subnet, needs, usages

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.prices import PriceList, SizePrice
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.text import as_json
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import preflight
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.apply import AzureState
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.cost import cost_of
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_facts import Answer, Facts, Usage, Verdict
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_look import existing_machines

from .azure import answers, known, resources_of
from .stacks import sets, stack

TODAY = datetime.date(2026, 11, 26)
PRICES = PriceList(
    "USD",
    "2026-11-20",
    "the test",
    {("westeurope", GPU): SizePrice(30.0), ("westeurope", "Standard_D8s_v5"): SizePrice(0.5)},
    {("westeurope", item): 0.01 for item in ("disk_p10", "nat_gateway", "public_address")},
)


def report(answered: Facts | None = None, prices: PriceList | None = PRICES) -> dict[str, Any]:
    """The report with these answers."""
    cost = cost_of(needs(), prices)
    of_cost = preflight.judge_cost(cost, Answer(prices), TODAY)
    verdicts = preflight.judge(needs(), answered or facts(), None, of_cost)
    return preflight.document(needs(), "hpc", verdicts, cost)


def test_everything_passes_in_an_empty_subscription_with_quota() -> None:
    made = report()
    assert made["verdict"] == "pass", [one for one in made["checks"] if one["verdict"] != "pass"]
    assert {one["check"] for one in made["checks"]} == set(preflight.CHECKS)


def test_lists_the_worst_first_and_what_to_do() -> None:
    answered = facts(
        usages=Answer(usages(gpu=Usage("Standard NDASv4_A100 Family", 0, 96))), subnets=full_subnet(251, 251)
    )
    made = report(answered, None)
    assert [one["verdict"] for one in made["checks"]][:3] == ["fail", "unknown", "warn"]
    assert made["verdict"] == "fail"
    lines = preflight.table(made)
    assert lines[0].startswith("Preflight of hpc in westeurope: 1 fail, 1 unknown, 1 warn, ")
    heading = lines.index("To do:")
    assert lines[heading + 1].startswith("  fail subnet compute: Use a larger address range")
    assert "fetch_prices: if_missing" in lines[heading + 2]
    assert "at least 384 vCPUs" in lines[heading + 3]


def test_never_says_that_a_size_is_available() -> None:
    # Azure only tells when machines are ordered.
    everything = [report(), report(facts(skus=Answer([]))), report(prices=None)]
    for made in everything:
        assert not re.search(r"\bavailable\b", as_json(made) + "\n".join(preflight.table(made)), re.IGNORECASE)
        assert "not known until they are ordered" in preflight.table(made)[0]


def test_shows_the_cost_by_set() -> None:
    lines = preflight.table(report())
    start = next(number for number, line in enumerate(lines) if line.startswith("COST PER DAY"))
    assert lines[start + 1].split()[:3] == ["hpc-controller", "12.24", "12.24"]
    assert lines[start + 2].split()[:4] == ["set", "compute", "0.00", "2,880.96"]
    assert lines[start + 4].split()[:3] == ["total", "12.72", "2,893.68"]
    assert lines[-1].startswith("Not included: traffic")


def test_an_incomplete_sum_is_a_lower_bound() -> None:
    lines = preflight.table(report(prices=replace(PRICES, sizes={})))
    compute = next(line for line in lines if line.startswith("set compute"))
    assert "at least 0.96" in compute
    assert "4 x Standard_ND96asr_v4 (price unknown)" in compute
    total = next(line for line in lines if line.startswith("total"))
    assert re.split(r" {2,}", total)[1:3] == ["at least 0.72", "at least 1.68"]


def test_without_any_price_nothing_is_shown_as_0() -> None:
    assert preflight.table(report(prices=None))[-1] == "Cost: unknown, because there is no price file."
    lines = preflight.table(report(prices=replace(PRICES, sizes={}, items={})))
    assert re.split(r" {2,}", next(line for line in lines if line.startswith("network")))[1:3] == ["unknown", "unknown"]


@pytest.mark.parametrize(
    ("prices", "verdict"),
    [
        (Answer(PRICES), "pass"),
        (Answer(replace(PRICES, date="2026-08-01")), "warn"),
        (Answer(replace(PRICES, items={})), "unknown"),
        (Answer(), "unknown"),
        (Answer(problem="could not read the prices: 503"), "unknown"),
    ],
)
def test_judges_the_cost_by_what_is_known(prices: Answer[PriceList], verdict: str) -> None:
    cost = cost_of(needs(), prices.value)
    found = preflight.judge_cost(cost, prices, TODAY)
    assert found.verdict == verdict
    assert prices.problem in found.summary
    assert bool(found.action) is (verdict != "pass")


def test_without_a_subscription_all_else_is_unknown() -> None:
    made = report(Facts(Answer(problem="could not read it: 401")))
    verdicts = {one["check"]: one["verdict"] for one in made["checks"]}
    assert verdicts.pop("subscription") == "fail"
    assert verdicts.pop("cost") == "pass"
    assert set(verdicts.values()) == {"unknown"}
    assert made["verdict"] == "fail"


def test_the_report_is_plain_json_without_a_time() -> None:
    assert json.loads(as_json(report())) == json.loads(as_json(report()))
    assert json.loads(as_json(report()))["schema"] == 1


def test_no_answer_of_azure_can_break_a_line_of_the_table() -> None:
    odd = Verdict("image", "a\nb\x1b[31m", "fail", "c\nd", action="e\r\nf")
    made = preflight.document(needs(), "hpc", [odd], cost_of(needs(), PRICES))
    assert all(line.isprintable() for line in preflight.table(made))


def test_a_verdict_must_be_one() -> None:
    with pytest.raises(ValueError, match="'good' is not a verdict"):
        Verdict("quota", "cores", "good", "")


def test_only_machines_count_as_machines_that_exist() -> None:
    # The group and the set have one name, and the set does not exist yet.
    wanted = stack(name="compute0", scale_sets=sets(2))
    found = answers(wanted)
    new = next(one.id for one in resources_of(wanted) if one.id.endswith("virtualMachineScaleSets/compute0"))
    found[new.lower()] = None
    azure = AzureState(known(wanted), resources_of(wanted), found, None, "")

    assert existing_machines(azure) == {"compute0-controller": 1, "compute0-login-1": 1, "compute1": 40}
