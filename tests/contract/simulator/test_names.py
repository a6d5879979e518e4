# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identifiers, addresses, and invalid scenarios."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from simulator import names, scenario
from simulator.addresses import AddressesExhausted, split
from simulator.scenario import ScenarioError
from simulator.testing import running

SCENARIOS = Path(scenario.__file__).with_name("scenarios")


@pytest.mark.parametrize(
    ("number", "text"), [(0, "000000"), (10, "00000A"), (17, "00000H"), (1146, "0000VU"), (2176782335, "ZZZZZZ")]
)
def test_base36_numbers_have_azures_format(number: int, text: str) -> None:
    assert names.base36(number) == text


def test_instance_ids_have_gaps_and_are_the_same_in_each_run() -> None:
    first = list(islice(names.instance_ids([0, 3, 17]), 40))
    assert first[:6] == [0, 3, 17, 19, 22, 26]
    assert first == sorted(set(first))
    assert all(later - earlier > 1 for earlier, later in pairwise(first))
    assert first == list(islice(names.instance_ids([0, 3, 17]), 40))


def test_the_same_seed_gives_the_same_identifiers() -> None:
    document = {"scale_sets": [{"name": "flex", "capacity": 2, "orchestration_mode": "Flexible"}]}

    def identifiers(seed: int | None) -> list[tuple[str, str]]:
        with running(document, seed=seed) as simulator:
            return [(item.vm_id, item.name) for item in simulator.model.instances()]

    assert identifiers(7) == identifiers(7)
    assert identifiers(7) != identifiers(8)
    assert identifiers(None) != identifiers(None)


def test_10000_flexible_names_are_unique() -> None:
    """Random names of six hexadecimal digits collide from about 5,000 machines on."""
    document = {
        "virtual_networks": [{"address_prefixes": ["10.0.0.0/16"]}],
        "scale_sets": [{"name": "flex", "capacity": 10_000, "orchestration_mode": "Flexible"}],
    }
    with running(document, seed=7) as simulator:
        machines = list(simulator.model.instances())
        assert len({item.computer_name for item in machines}) == len({item.name for item in machines}) == 10_000


def test_addresses_start_like_azures_and_are_reused() -> None:
    private, public = split("10.77.0.0/24")
    assert [private.take() for _number in range(3)] == ["10.77.0.4", "10.77.0.5", "10.77.0.6"]
    assert public.take() == "10.77.0.200"
    private.release("10.77.0.5")
    assert [private.take(), private.take()] == ["10.77.0.5", "10.77.0.7"]
    assert private.take("10.77.0.100") == "10.77.0.100"
    assert private.take() == "10.77.0.8"
    with pytest.raises(AddressesExhausted):
        private.take("10.77.0.100")


def test_a_full_subnet_is_an_error() -> None:
    private, _public = split("10.0.0.0/28")
    assert [private.take() for _number in range(8)][-1] == "10.0.0.11"
    with pytest.raises(AddressesExhausted, match="larger subnet"):
        private.take()


def test_a_placement_group_has_at_most_100_instances() -> None:
    wide = {"virtual_networks": [{"address_prefixes": ["10.0.0.0/16"]}]}
    scale_set = {"name": "uni", "capacity": 250, "single_placement_group": False}
    with running({**wide, "scale_sets": [scale_set]}) as simulator:
        assert len({item.placement_group for item in simulator.model.instances()}) == 3
    with running({"scale_sets": [{"name": "uni", "capacity": 3}]}) as simulator:
        assert len({item.placement_group for item in simulator.model.instances()}) == 1


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.yml")), ids=lambda path: path.stem)
def test_shipped_scenarios_load(path: Path) -> None:
    loaded = scenario.load(path)
    assert bool(loaded.virtual_machines) == bool(loaded.virtual_networks) == (path.stem != "empty")


@pytest.mark.parametrize("name", ["site", "push"])
def test_cluster_scenarios_have_a_controller_and_two_nodes(name: str) -> None:
    loaded = scenario.load(SCENARIOS / f"{name}.yml")
    assert [item.name for item in loaded.virtual_machines] == ["ctl"]
    assert loaded.scale_sets[0].instance_ids == (0, 3, 17)
    assert loaded.scale_sets[0].capacity == 2


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "must be a mapping"),
        ({"colour": "red"}, "unknown key 'colour'; known are"),
        ({"scale_sets": [{"capacity": 1}]}, r"scale_sets\[0\]: 'name' is missing"),
        ({"scale_sets": [{"name": "a", "capacity": "two"}]}, r"scale_sets\[0\].capacity must be int, not 'two'"),
        ({"scale_sets": [{"name": "a", "tags": {"x": 1}}]}, "tags must be a mapping of strings"),
        ({"scale_sets": [{"name": "a", "orchestration_mode": "Loose"}]}, "must be Uniform or Flexible"),
        ({"scale_sets": [{"name": "a", "capacity": 101}]}, "single_placement_group: false"),
        ({"scale_sets": [{"name": "a", "instance_ids": [3, 0]}]}, "must ascend"),
        ({"scale_sets": [{"name": "a"}, {"name": "A"}]}, "two are called"),
        ({"scale_sets": [{"name": "a", "network": "x"}]}, "no virtual network 'x'"),
        ({"virtual_machines": [{"name": "a b"}]}, "is not a resource name"),
        ({"virtual_networks": [{"address_prefixes": []}]}, "no IPv4 networks in nothing"),
        ({"virtual_networks": [], "scale_sets": [{"name": "x"}]}, "at least one network"),
        ({"virtual_networks": [{"address_prefixes": ["10.0.0.0/99"]}]}, "10.0.0.0/99"),
        ({"virtual_networks": [{"address_prefixes": ["10.0.0.0/30"]}]}, "too small"),
        (
            {"virtual_networks": [{"address_prefixes": ["10.0.0.0/16"], "subnet_prefix": "10.1.0.0/24"}]},
            "lies in none of",
        ),
        ({"name": "Not A Name"}, "lower-case letters"),
        ({"key_vaults": [{"name": "a"}]}, "3 to 24 letters"),
        ({"key_vaults": [{"name": "abc", "secrets": {"x": 1}}]}, "secrets must be a mapping of strings"),
        ({"scale_sets": [{"name": "a", "user_data": "{vault}"}]}, "there are no key_vaults"),
        ({"scale_sets": [{"name": "a", "user_data": {"x": "{address:moon}"}}]}, "there is no such machine"),
        ({"scale_sets": [{"name": "a", "user_data": "x" * 50_000}]}, "longer than the 65536 bytes"),
    ],
)
def test_the_error_of_an_invalid_scenario_says_what_is_wrong_and_where(document: Any, why: str) -> None:
    with pytest.raises(ScenarioError, match=why):
        scenario.parse(document)


def test_the_error_of_an_unreadable_scenario_names_the_file(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text("a: [", encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"broken\.yml is not YAML"):
        scenario.load(broken)
    with pytest.raises(ScenarioError, match=r"cannot read the scenario .*missing\.yml"):
        scenario.load(tmp_path / "missing.yml")
