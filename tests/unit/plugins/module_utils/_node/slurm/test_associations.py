# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Accounts, users and QOS: which changes are needed, by recorded answers of sacctmgr of Slurm 22.05."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import associations, limits
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.limits import BadSetting, canonical

RECORDED = json.loads((pathlib.Path(__file__).parent / "recorded/sacctmgr-22.05.8-show.json").read_text("utf-8"))
# The settings of the recorded cluster.
QOS: dict[str, Any] = {
    "normal": {"MaxTRESPerUser": {"gres/gpu": 16}, "Priority": 0},
    "Urgent": {
        "Priority": 1000,
        "MaxJobsPerUser": 1,
        "MaxWall": "4:00:00",
        "Flags": ["DenyOnLimit"],
        "Preempt": "normal",
        "GraceTime": 90,
        "PreemptMode": "REQUEUE",
        "UsageFactor": 2,
    },
    "long": {"Flags": None, "MaxWall": None, "UsageFactor": None, "MaxTRESPerUser": None, "GraceTime": None},
}
ACCOUNTS: dict[str, Any] = {
    "vision": {"Fairshare": 60, "QOS": ["urgent", "normal"], "Description": "Computer Vision", "MaxWall": 90},
    "language": {
        "GrpTRES": {"gres/gpu": 256, "mem": "102400M"},
        "users": {"carol": {"default": True, "MaxJobs": 20, "AdminLevel": "operator"}},
        "accounts": {"translation": {"users": {"carol": None, "azureuser": {"default": True}}}},
    },
    "lasers": {"GrpTRES": None, "Fairshare": "parent"},
}


def recorded(command: Sequence[str]) -> Result:
    """Answer as the recorded sacctmgr did."""
    lines = RECORDED[" ".join(command)]
    return Result(tuple(command), 0, "".join(f"{line}\n" for line in lines), "")


def planned(accounts: dict[str, Any], qos: dict[str, Any] | None = None, purge: bool = False) -> list[str]:
    """The commands that bring the recorded cluster to these settings."""
    desired = associations.desired_book(accounts, qos or {})
    return [
        " ".join(step.words)
        for step in associations.plan("demo", associations.read_book("demo", recorded), desired, purge)
    ]


def test_nothing_is_planned_for_equal_values_in_another_notation() -> None:
    assert planned(ACCOUNTS, QOS) == []


def test_an_account_is_added_below_its_parent_and_then_given_its_limits() -> None:
    accounts = {"language": {"accounts": {"speech": {"Fairshare": 5, "Organization": "Uni", "users": ["alice"]}}}}
    assert planned(accounts) == [
        "add account speech cluster=demo parent=language Organization=uni",
        "modify account where name=speech cluster=demo set Fairshare=5",
        "add user alice account=speech cluster=demo",
        # alice has had no default account since another one was purged.
        "modify user where name=alice cluster=demo set DefaultAccount=speech",
    ]


def test_resources_that_are_no_longer_named_are_cleared_one_by_one() -> None:
    assert planned({"language": {"GrpTRES": {"cpu": 8}}}) == [
        "modify account where name=language cluster=demo set GrpTRES=cpu=8,gres/gpu=-1,mem=-1"
    ]


def test_a_null_removes_a_limit() -> None:
    assert planned({"vision": {"MaxWall": None, "QOS": None}, "language": {"users": {"carol": {"MaxJobs": -1}}}}) == [
        "modify account where name=vision cluster=demo set MaxWallDurationPerJob=-1 QOS=",
        "modify user where name=carol account=language cluster=demo set MaxJobs=-1",
    ]


def test_a_qos_is_added_before_another_one_can_preempt_it() -> None:
    assert planned({}, {"urgent": {"Preempt": ["scavenge", "normal"]}, "scavenge": {"Priority": 0}}) == [
        "add qos scavenge",
        "modify qos where name=urgent set Preempt=normal,scavenge",
    ]


def test_without_a_purge_nothing_is_deleted() -> None:
    assert not [words for words in planned({}) if words.startswith("delete")]


def test_a_purge_removes_children_first_and_keeps_what_slurmdbd_needs() -> None:
    assert planned({"vision": {"users": ["alice", "bob"]}}, {"urgent": {}}, purge=True) == [
        "modify user where name=alice cluster=demo set DefaultAccount=vision",
        "delete user where name=carol account=language cluster=demo",
        "delete user where name=azureuser account=translation cluster=demo",
        "delete user where name=carol account=translation cluster=demo",
        "delete account where name=translation cluster=demo",
        "delete account where name=language cluster=demo",
        "delete account where name=lasers cluster=demo",
        "delete qos where name=long",
    ]


def test_an_account_moves_to_another_parent() -> None:
    assert planned({"vision": {"accounts": {"lasers": {}}}}) == [
        "modify account where name=lasers cluster=demo set parent=vision"
    ]


def test_a_cluster_that_slurmdbd_does_not_know_is_added() -> None:
    steps = associations.plan("new", associations.Book(has_cluster=False), associations.desired_book({}, {}))
    assert [" ".join(step.words) for step in steps] == ["add cluster new"]


@pytest.mark.parametrize(
    ("accounts", "qos", "words"),
    [
        ({"a": {"GrpTres": "8"}}, {}, "account a: GrpTres is '8', which is not resources with counts"),
        ({"a": {"MaxGpus": 8}}, {}, "account a: MaxGpus is not a known setting; known are DefaultQOS"),
        ({"a": {"accounts": {"a": {}}}}, {}, "account a is in the settings twice"),
        ({"a": {"MaxWall": "tomorrow"}}, {}, "account a: MaxWall is 'tomorrow', which is not minutes"),
        (
            {"a": {"users": {"u": {"default": True}}}, "b": {"users": {"u": {"default": True}}}},
            {},
            "already has the default account",
        ),
        ({"a": {"users": {"u": {"AdminLevel": "king"}}}}, {}, "must be one of None, Operator, Administrator"),
        ({"a": 3}, {}, "account a must be a mapping, not 3"),
        ({}, {"q": {"Priority": True}}, "QOS q: Priority is True. Write it in quotes"),
        ({}, {"q": {"MaxWall": 1, "MaxWallDurationPerJob": 2}}, "MaxWallDurationPerJob is set twice"),
    ],
)
def test_invalid_settings_are_refused_and_named(accounts: dict[str, Any], qos: dict[str, Any], words: str) -> None:
    with pytest.raises(BadSetting) as refused:
        associations.desired_book(accounts, qos)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (limits.TIME, 90, "01:30:00"),
        (limits.TIME, "1-0", "1-00:00:00"),
        (limits.TIME, "90:00", "01:30:00"),
        (limits.SECONDS, 90, "00:01:30"),
        (limits.TRES, {"gres/gpu": 8, "cpu": 4}, "cpu=4,gres/gpu=8"),
        (limits.TRES, "mem=1.5T", "mem=1536G"),
        (limits.NAMES, ["b", "A"], "a,b"),
        (limits.NUMBER, 2, "2.000000"),
        (limits.SHARE, "Parent", "parent"),
        (limits.COUNT, -1, ""),
    ],
)
def test_two_forms_of_one_value_are_equal(kind: int, one: Any, other: Any) -> None:
    assert canonical("it", kind, one) == canonical("it", kind, other)


def test_a_refusal_of_sacctmgr_is_reported_with_its_message() -> None:
    step = associations.Step(("delete", "account", "where", "name=physics"), "", "")
    with pytest.raises(
        CommandFailed, match=r"delete account where name=physics' failed.*You can not remove the default"
    ):
        associations.apply(
            [step], lambda words: Result(tuple(words), 1, "", " Error: You can not remove the default\n")
        )


@pytest.mark.parametrize("description", ["a|root|x", "two\nlines"])
def test_a_description_is_not_read_as_another_field_or_account(description: str) -> None:
    def hostile(command: Sequence[str]) -> Result:
        answer = recorded(command)
        if "account" not in command:
            return answer
        return Result(answer.command, 0, f"vision|{description}|site\n", "")

    with pytest.raises(CommandFailed, match="line breaks from its description"):
        associations.read_book("demo", hostile)
