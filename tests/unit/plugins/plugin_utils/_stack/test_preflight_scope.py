# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Subscription, rights, resource providers, subnets, names, locks and policies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from stand_ins.preflight import (
    ASSIGNMENT,
    CLUSTER_SUBNET,
    COMPUTE,
    COMPUTE_SUBNET,
    CONTROLLER,
    GROUP,
    SUBSCRIPTION,
    VAULT,
    facts,
    full_subnet,
    needs,
)

from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.plan import Plan
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_facts import (
    Answer,
    Lock,
    NameUse,
    Permission,
    Refusal,
    Verdict,
)
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_needs import Subnet
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.preflight_scope import (
    judge_locks,
    judge_names,
    judge_providers,
    judge_resources,
    judge_rights,
    judge_subnets,
    judge_subscription,
    judge_validation,
    may,
)

CONTRIBUTOR = Permission(("*",), ("Microsoft.Authorization/*/Delete", "Microsoft.Authorization/*/Write"))


def only(verdicts: Iterable[Verdict], verdict: str) -> Verdict:
    """The only verdict that is not a pass, which must be this one."""
    found = [one for one in verdicts if one.verdict != "pass"]
    assert [one.verdict for one in found] == [verdict]
    return found[0]


def all_pass(verdicts: Iterable[Verdict]) -> bool:
    found = list(verdicts)
    return bool(found) and {one.verdict for one in found} == {"pass"}


def test_a_subscription_that_cannot_be_read_fails_with_the_tenant_as_a_cause() -> None:
    found = judge_subscription(needs(), facts(subscription=Answer(problem="could not read it: 401 wrong tenant")))
    assert (found.verdict, found.summary) == ("fail", "could not read it: 401 wrong tenant")
    assert "az login --tenant" in found.action
    assert judge_subscription(needs(), facts(subscription=Answer())).verdict == "fail"


def test_a_disabled_subscription_fails() -> None:
    assert judge_subscription(needs(), facts(subscription=Answer("Disabled"))).verdict == "fail"
    assert judge_subscription(needs(), facts()).verdict == "pass"


@pytest.mark.parametrize(
    ("permission", "action", "allowed"),
    [
        (Permission(("*",)), "Microsoft.Compute/disks/write", True),
        (Permission(("*/read",)), "Microsoft.Compute/disks/write", False),
        (Permission(("Microsoft.Compute/*",)), "microsoft.compute/disks/WRITE", True),
        (Permission(("Microsoft.Compute/disks/write",)), "Microsoft.Compute/disks/write", True),
        (Permission(("Microsoft.Compute/disks/w",)), "Microsoft.Compute/disks/write", False),
        (Permission(("Microsoft.Compute/[disks]/write",)), "Microsoft.Compute/d/write", False),
        (CONTRIBUTOR, "Microsoft.Compute/disks/write", True),
        (CONTRIBUTOR, "Microsoft.Authorization/roleAssignments/write", False),
        (Permission(), "Microsoft.Compute/disks/write", False),
    ],
)
def test_permits_what_azures_roles_permit(permission: Permission, action: str, allowed: bool) -> None:
    assert may([permission], action) is allowed


def test_what_one_role_excludes_another_may_grant() -> None:
    access = Permission(("Microsoft.Authorization/*",))
    assert may([CONTRIBUTOR, access], "Microsoft.Authorization/roleAssignments/write")


def rights(*permissions: Permission, **answers: Any) -> list[Verdict]:
    return list(judge_rights(needs(), facts(permissions=Answer(list(permissions)), **answers)))


def test_an_owner_may_do_everything() -> None:
    assert all_pass(rights(Permission(("*",))))


def test_a_reader_gets_the_role_to_ask_for() -> None:
    found = {one.check: one for one in rights(Permission(("*/read",)))}
    assert found["rights"].verdict == "fail"
    assert f"--role Contributor --scope {GROUP}" in found["rights"].action
    assert "Microsoft.Compute/virtualMachineScaleSets/write" in found["rights"].action


def test_without_the_right_to_assign_roles_an_owner_gets_the_exact_commands() -> None:
    found = only(rights(CONTRIBUTOR), "fail")
    assert found.check == "role_rights"
    assert f"az identity show --ids {ASSIGNMENT.identity} --query principalId" in found.action
    assert "az role assignment create --role 'Key Vault Secrets User'" in found.action
    assert f"--scope {VAULT}" in found.action
    assert "--assignee-principal-type ServicePrincipal" in found.action


def test_assignments_that_exist_need_no_rights() -> None:
    assert all_pass(rights(CONTRIBUTOR, assigned=Answer([ASSIGNMENT])))


def test_assignments_that_others_write_are_a_warning_until_they_exist() -> None:
    foreign = ASSIGNMENT._replace(foreign=True)
    everything = Answer([Permission(("*",))])
    missing = list(judge_rights(needs(assignments=(foreign,)), facts(permissions=everything)))
    assert "az role assignment create" in only(missing, "warn").action
    exist = facts(permissions=everything, assigned=Answer([foreign]))
    assert all_pass(judge_rights(needs(assignments=(foreign,)), exist))


def test_a_conditional_right_to_assign_roles_is_unknown() -> None:
    limited = Permission(("Microsoft.Authorization/roleAssignments/write",), condition="@Request[...]")
    assert "under a condition" in only(rights(CONTRIBUTOR, limited), "unknown").summary


def test_rights_on_an_adopted_resource_are_asked_there() -> None:
    hub = GROUP.replace("/hpc", "/hub") + "/providers/Microsoft.Network/virtualNetworks/hub/subnets/batch"
    join = "Microsoft.Network/virtualNetworks/subnets/join/action"
    wanted = needs(elsewhere={hub: (join,)})

    def judged(answer: Answer[list[Permission]]) -> list[Verdict]:
        return list(judge_rights(wanted, facts(permissions_elsewhere={hub: answer})))

    assert all_pass(judged(Answer([Permission(("*/join/action",))])))
    found = only(judged(Answer([Permission(("*/read",))])), "fail")
    assert (found.check, found.about, found.summary) == ("rights", hub, f"the identity lacks {join}")
    assert f"--role 'Network Contributor' --scope {hub}. Needed actions: {join}" in found.action
    assert only(judged(Answer(problem="403")), "unknown").about == hub
    # That it does not exist is found by another check.
    assert all_pass(judged(Answer()))


def test_rights_are_unknown_without_an_answer() -> None:
    found = list(judge_rights(needs(), facts(permissions=Answer(problem="403"))))
    assert [(one.check, one.verdict) for one in found] == [("rights", "unknown"), ("role_rights", "unknown")]
    assert only(rights(CONTRIBUTOR, assigned=Answer(problem="403 on assignments")), "unknown").check == "role_rights"


def test_a_stack_without_role_assignments_needs_no_right_for_them() -> None:
    found = list(judge_rights(needs(assignments=()), facts(permissions=Answer([CONTRIBUTOR]))))
    assert [one.check for one in found] == ["rights"]


@pytest.mark.parametrize(
    ("state", "verdict"), [("NotRegistered", "fail"), ("Registering", "warn"), ("Unregistered", "fail")]
)
def test_an_unregistered_provider_fails_with_the_command_that_registers_it(state: str, verdict: str) -> None:
    states = {"Microsoft.Compute": Answer("Registered"), "Microsoft.Network": Answer(state)}
    found = only(judge_providers(needs(), facts(providers=states)), verdict)
    assert found.action == f"az provider register --namespace Microsoft.Network --subscription {SUBSCRIPTION} --wait"


def test_a_provider_without_an_answer_is_unknown() -> None:
    states = {"Microsoft.Compute": Answer("Registered"), "Microsoft.Network": Answer(problem="403")}
    assert only(judge_providers(needs(), facts(providers=states)), "unknown").about == "Microsoft.Network"


def test_a_subnet_that_is_made_needs_room_for_all_machines() -> None:
    assert all_pass(judge_subnets(needs(), facts()))
    # 16 addresses, 5 of them reserved.
    small = needs(
        machines=(CONTROLLER, replace(COMPUTE, maximum=12)),
        subnets=(Subnet(CLUSTER_SUBNET, "10.42.0.0/24"), Subnet(COMPUTE_SUBNET, "10.42.1.0/28")),
    )
    found = only(judge_subnets(small, facts()), "fail")
    assert (found.value, found.limit) == ("12 addresses needed", "11 free")
    fits = replace(small, machines=(CONTROLLER, replace(COMPUTE, maximum=11)))
    assert all_pass(judge_subnets(fits, facts()))


def test_a_full_subnet_fails() -> None:
    found = only(judge_subnets(needs(), facts(subnets=full_subnet(248, 251))), "fail")
    assert "room for 3 more machines, but set compute can need 4" in found.summary


def test_machines_that_exist_have_their_addresses_already() -> None:
    answered = facts(subnets=full_subnet(251, 251), existing=Answer({"compute": 4}))
    assert all_pass(judge_subnets(needs(), answered))


@pytest.mark.parametrize(("used", "limit"), [(None, 251), (3, None)])
def test_a_subnet_whose_use_is_not_known_is_unknown(used: float | None, limit: float | None) -> None:
    assert only(judge_subnets(needs(), facts(subnets=full_subnet(used, limit))), "unknown").about == "compute"


def test_an_adopted_subnet_must_exist() -> None:
    adopted = needs(subnets=(Subnet(COMPUTE_SUBNET),))
    assert "does not exist" in only(judge_subnets(adopted, facts()), "fail").summary
    hidden = facts(subnets=Answer(problem="403 on the network"))
    assert only(judge_subnets(adopted, hidden), "unknown").summary == "403 on the network"


def test_free_names_and_our_own_pass() -> None:
    assert all_pass(judge_names(needs(), facts()))
    ours = Answer(NameUse(ours=True))
    assert all_pass(judge_names(needs(), facts(names={"hpc-vault": ours, "hpcdata": ours})))
    assert list(judge_names(needs(names={}), facts())) == []


def test_the_name_of_a_soft_deleted_vault_fails() -> None:
    gone = NameUse(deleted="2026-12-01T00:00:00Z")
    found = only(judge_names(needs(), facts(names={**facts().names, "hpc-vault": Answer(gone)})), "fail")
    assert "blocks it until 2026-12-01T00:00:00Z" in found.summary
    assert "az keyvault recover --name hpc-vault" in found.action
    assert "az keyvault purge --name hpc-vault --location westeurope" in found.action


@pytest.mark.parametrize("name", ["hpc-vault", "hpcdata"])
def test_a_name_that_somebody_else_has_fails(name: str) -> None:
    def judged(answer: Answer[NameUse], verdict: str) -> Verdict:
        return only(judge_names(needs(), facts(names={**facts().names, name: answer})), verdict)

    assert judged(Answer(NameUse(reason="AlreadyExists")), "fail").action == "Choose another name."
    assert judged(Answer(problem="403"), "unknown").summary == "403"


@pytest.mark.parametrize("scope", [GROUP, GROUP.upper(), f"/subscriptions/{SUBSCRIPTION}", VAULT])
def test_a_read_only_lock_on_what_the_stack_makes_fails(scope: str) -> None:
    found = only(judge_locks(needs(), facts(locks=Answer([Lock("hands-off", "ReadOnly", scope)]))), "fail")
    assert f"az lock delete --name hands-off --resource {scope}" in found.action


def test_a_lock_against_deletion_is_a_warning() -> None:
    assert (
        "teardown"
        in only(judge_locks(needs(), facts(locks=Answer([Lock("keep", "CanNotDelete", GROUP)]))), "warn").summary
    )


def test_locks_of_others_do_not_matter() -> None:
    others = [Lock("a", "ReadOnly", f"{GROUP}-other"), Lock("b", "ReadOnly", f"{VAULT}-other")]
    # A group whose name is the beginning of the stack's.
    others.append(Lock("c", "ReadOnly", GROUP[:-1]))
    assert all_pass(judge_locks(needs(), facts(locks=Answer(others))))
    assert only(judge_locks(needs(), facts(locks=Answer(problem="403"))), "unknown").summary == "403"


def test_a_policy_that_denies_fails_with_its_name() -> None:
    denied = Refusal("RequestDisallowedByPolicy", "Resource was disallowed by policy.", "login-ip", ("no-public-ip",))
    found = only(judge_validation(needs(), facts(refusals=Answer([denied]))), "fail")
    assert (found.check, found.about) == ("policies", "login-ip")
    assert f"the policy assignment no-public-ip for an exemption of {GROUP}" in found.action


def test_other_refusals_of_the_validation_fail_separately() -> None:
    other = Refusal("InvalidTemplateDeployment", "wrong")
    found = only(judge_validation(needs(), facts(refusals=Answer([other]))), "fail")
    assert (found.check, found.summary) == ("validation", "InvalidTemplateDeployment: wrong")


def test_refusals_for_one_reason_are_one_verdict() -> None:
    many = [Refusal("ScopeLocked", "locked", f"disks/{number}") for number in range(7)]
    found = only(judge_validation(needs(), facts(refusals=Answer(many))), "fail")
    assert found.about == "disks/0, disks/1, disks/2, disks/3, disks/4 and 2 more"


def test_without_a_validation_policies_are_unknown() -> None:
    assert (
        only(judge_validation(needs(), facts(refusals=Answer(problem="no group yet"))), "unknown").check == "policies"
    )
    assert all_pass(judge_validation(needs(), facts()))


def test_what_is_in_the_way_of_the_plan_fails() -> None:
    blocked = Plan((), ("networkSecurityGroups/hpc-nsg exists, and is not of this stack.",), (), None)
    found = only(judge_resources(needs(), facts(plan=Answer(blocked))), "fail")
    assert found.summary == "networkSecurityGroups/hpc-nsg exists, and is not of this stack."
    assert all_pass(judge_resources(needs(), facts()))
    assert only(judge_resources(needs(), facts(plan=Answer(problem="403"))), "unknown").summary == "403"
