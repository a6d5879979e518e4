# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make breakages` breaks in the code that sends requests to Azure, and in the playbooks that call it."""

from __future__ import annotations

from mutation.breakages import CONTRACT, UNIT, Breakage, broken

STACK = "plugins/plugin_utils/_stack"
AZURE = "plugins/plugin_utils/_azure"
UNIT_STACK = f"{UNIT}/plugins/plugin_utils/_stack"
FAULTS = f"{CONTRACT}/stack/test_provision_faults.py"
GALLERY = f"{CONTRACT}/images/test_gallery_version.py"
BENCHMARK = f"{CONTRACT}/test_benchmark.py"

AZURE_BREAKAGES: tuple[Breakage, ...] = (
    *broken(
        f"{STACK}/ownership.py",
        f"{UNIT_STACK}/test_plan.py",
        (
            "a resource of another stack counts as ours",
            '    if tag == owner:\n        return ""',
            '    if tag:\n        return ""',
            "test_resource_of_somebody_else_under_our_name_is_refused",
        ),
        (
            "a machine that somebody else made is recorded as ours",
            "one.id.lower() not in made:\n            continue",
            "one.id.lower() in made:\n            continue",
            "test_machine_that_is_not_the_recorded_one_is_reported",
        ),
    ),
    *broken(
        f"{STACK}/ownership.py",
        f"{UNIT_STACK}/test_template.py",
        (
            "a record of a newer release is read",
            '    if content.get("schema") != SCHEMA:',
            "    if False:",
            "test_record_survives_its_deployment",
        ),
    ),
    *broken(
        f"{STACK}/apply.py",
        FAULTS,
        (
            "changes that others made during the checks are undone",
            "        if outdated:\n",
            "        if False:\n",
            "test_run_beside_another_one_does_not_make_the_same_again",
        ),
        (
            "the blocked name of a deleted vault is not refused",
            "    if answer is None:\n        return []\n    until",
            "    if True:\n        return []\n    until",
            "test_blocked_name_of_the_vault_is_found_before_the_first_write",
        ),
        (
            "Azure validates no deployment",
            "            self._deployments.check(self._names.deployment, content, secret)\n",
            "",
            "test_deployment_is_validated_and_previewed_before_it_starts",
        ),
    ),
    *broken(
        f"{STACK}/deployments.py",
        FAULTS,
        (
            "a deployment that would delete something starts",
            "        if deleted:\n",
            "        if False:\n",
            "test_preview_that_deletes_something_is_refused",
        ),
    ),
    *broken(
        f"{STACK}/plan.py",
        f"{UNIT_STACK}/test_plan_adopted.py",
        (
            "adopted resources are changed",
            "            problems += _adopted(stack, one, there)\n",
            "            changes.append(Change(one, UPDATE, one.body))\n",
            "test_adopted_network_is_read_and_never_changed",
            "test_adopted_network_that_does_not_fit_is_a_problem",
        ),
    ),
    *broken(
        f"{STACK}/plan.py",
        f"{UNIT_STACK}/test_plan.py",
        (
            "a resource that Azure could not make stays half made",
            'in ("failed", "canceled")',
            'in ("canceled",)',
            "test_half_made_resource_is_sent_again",
        ),
        (
            "a scale set that could not grow is sent again, and Azure orders its machines again",
            '    if one.kind == kinds.SCALE_SET and (there.get("sku") or {}).get("capacity"):',
            "    if False:",
            "test_scale_set_that_could_not_grow_is_left_to_whoever_grows_it",
        ),
        (
            "what Azure cannot change is sent",
            "    if fixed or not (found or failed):",
            "    if not (found or failed):",
            "test_what_azure_cannot_change_is_refused",
        ),
    ),
    *broken(
        f"{STACK}/machines.py",
        f"{UNIT_STACK}/test_plan.py",
        (
            "each run sets the capacity of a scale set back to 0",
            'once=frozenset({"sku.capacity", "sku.tier",',
            'once=frozenset({"sku.tier",',
            "test_capacity_of_an_existing_set_is_neither_compared_nor_sent",
        ),
    ),
    *broken(
        f"{STACK}/teardown.py",
        f"{UNIT_STACK}/test_teardown.py",
        (
            "a resource without the stack's tag is deleted",
            "        if tag != owner:\n",
            "        if False:\n",
            "test_machine_that_is_no_longer_ours_stays_with_what_it_needs",
        ),
        (
            "a machine that somebody made again is deleted",
            "    if recorded.lower() != now.lower():\n",
            "    if False:\n",
            "test_machine_that_is_no_longer_ours_stays_with_what_it_needs",
        ),
        (
            "data is deleted without being named",
            "    if kind in _DATA and name.lower() not in choices.data and not",
            "    if False and not",
            "test_data_stays_unless_it_is_named",
        ),
        (
            "a storage account that cannot be listed counts as empty",
            "        return not (self.found or self.problem)\n",
            "        return not self.found\n",
            "test_account_with_content_stays_and_says_what_is_in_it",
        ),
        (
            "a network with a foreign machine is deleted",
            "        if foreign is not None:\n",
            "        if False:\n",
            "test_network_with_a_foreign_machine_stays",
        ),
        (
            "a group with foreign resources is deleted",
            "    if more:\n",
            "    if False:\n",
            "test_foreign_disk_in_our_group_stays_and_is_named",
        ),
        (
            "locks are ignored",
            "        if delete and (inside or above):\n",
            "        if False:\n",
            "test_lock_is_named_and_nothing_is_deleted",
        ),
        (
            "a stack without a record counts as deleted",
            "        return _without_record(owner, inside)\n",
            "        return Teardown()\n",
            "test_without_a_record_nothing_is_deleted",
        ),
    ),
    *broken(
        f"{STACK}/remove.py",
        f"{CONTRACT}/stack/test_contents.py",
        (
            "an account that got a blob during the teardown is deleted",
            "            if kind == kinds.ACCOUNT:\n",
            "            if False:\n",
            "test_an_account_that_got_a_blob_meanwhile_is_not_deleted",
        ),
    ),
    *broken(
        "playbooks/teardown.yml",
        f"{CONTRACT}/stack/test_playbooks.py",
        (
            "pending jobs are ignored",
            "if __hpcai_pending\n         else 'the inventory has no",
            "if false\n         else 'the inventory has no",
            "test_teardown_is_refused_while_jobs_run_or_are_pending",
        ),
    ),
    *broken(
        f"{STACK}/preflight_machines.py",
        f"{UNIT_STACK}/test_preflight_machines.py",
        (
            "machines that exist need quota again",
            "existing.get(one.name.lower(), 0)) for one, size in members]",
            "0) for one, size in members]",
            "test_machines_that_exist_need_no_quota_again",
        ),
        (
            "spot machines count against the quota of their family",
            "        if one.spot:\n",
            "        if False:\n",
            "test_spot_machines_use_the_quota_of_spot_only",
        ),
        (
            "a zone that is closed to the subscription passes",
            'if restriction.kind.lower() == "zone" and one.zone and one.zone in restriction.zones:',
            "if False:",
            "test_a_zone_that_is_closed_to_the_subscription_fails",
        ),
        (
            "terms of a marketplace image that were not accepted pass",
            "    if one.plan and not terms.value:\n",
            "    if False:\n",
            "test_the_terms_of_an_images_plan_must_be_accepted",
        ),
    ),
    *broken(
        f"{STACK}/preflight_scope.py",
        f"{UNIT_STACK}/test_preflight_scope.py",
        (
            "an action that a role excludes counts as permitted",
            "_matches(one.actions, action) and not _matches(one.not_actions, action)",
            "_matches(one.actions, action)",
            "test_permits_what_azures_roles_permit",
        ),
        (
            "addresses that Azure reserves count as free",
            "strict=False).num_addresses - RESERVED",
            "strict=False).num_addresses",
            "test_a_subnet_that_is_made_needs_room_for_all_machines",
        ),
        (
            "the name of a soft-deleted vault passes",
            "    if answer.value and answer.value.deleted:\n",
            "    if False:\n",
            "test_the_name_of_a_soft_deleted_vault_fails",
        ),
        (
            "a read-only lock is only a warning",
            '        if lock.level.lower() == "readonly":\n',
            "        if False:\n",
            "test_a_read_only_lock_on_what_the_stack_makes_fails",
        ),
    ),
    *broken(
        f"{AZURE}/galleries.py",
        GALLERY,
        (
            "an image version of another machine is overwritten",
            "    if not found.is_of(vm_id):\n",
            "    if False:\n",
            "test_a_version_of_another_machine_is_never_overwritten",
        ),
        (
            "what others have set for a region of an image version is lost",
            "    known = list(publishing.target_regions or [])\n",
            "    known = [models.TargetRegion(name=one.name) for one in publishing.target_regions or []]\n",
            "test_settings_of_regions_that_others_changed_stay",
        ),
    ),
    *broken(
        f"{AZURE}/capture.py",
        GALLERY,
        (
            "an image definition that does not fit the machine is accepted",
            "    if problems:\n",
            "    if False:\n",
            "test_an_image_definition_that_does_not_fit_is_refused_before_the_machine_stops",
        ),
    ),
    *broken(
        f"{AZURE}/images.py",
        f"{CONTRACT}/images/test_vmss_image.py",
        (
            "latest is accepted as a version",
            '    if asked.lower().rpartition(":")[2] == "latest" or asked.lower().endswith("/versions/latest"):\n',
            "    if False:\n",
            "test_an_image_is_named_by_id_by_urn_or_by_version",
        ),
        (
            "a set whose machines Azure would reimage at once gets the image",
            "for item in sets if item.upgrade_policy != MANUAL]",
            "for item in sets if False]",
            "test_a_set_that_azure_would_upgrade_at_once_is_refused",
        ),
        (
            "a set with a marketplace image is drained for a gallery's image",
            "    if bool(before.id) != bool(after.id):\n",
            "    if False:\n",
            "test_another_kind_of_image_is_refused_for_all_sets",
        ),
    ),
    *broken(
        "playbooks/roll.yml",
        f"{CONTRACT}/images/test_roll_play.py",
        (
            "a rollout continues although its canary did not come back",
            "        that: not __hpcai_canary.stopped\n",
            "        that: true\n",
            "test_a_first_node_that_does_not_come_back_stops_the_run",
        ),
        (
            "a rollout continues although its canary's boot checks fail",
            "             | rejectattr('__hpcai_boot_checked.health.verdict', 'eq', 'fail')",
            "            ",
            "test_a_first_node_whose_checks_fail_stops_the_run",
        ),
    ),
    *broken(
        f"{AZURE}/listing.py",
        BENCHMARK,
        (
            "the inventory lists the instances of each scale set twice",
            "            self._ask_for_instances(key, scale_set)\n",
            "            self._ask_for_instances(key, scale_set)\n" * 2,
            "test_the_inventory_makes_no_more_requests_than_lists",
        ),
    ),
    *broken(
        f"{AZURE}/listing.py",
        f"{CONTRACT}/inventory/test_inventory_hosts.py",
        (
            "the inventory lacks a host",
            "for key in sorted(instances, key=in_natural_order)]",
            "for key in sorted(instances, key=in_natural_order)[1:]]",
            "test_instances_of_both_kinds_and_stand_alone_vms_are_hosts",
        ),
    ),
    *broken(
        f"{AZURE}/source.py",
        f"{CONTRACT}/inventory/test_inventory_cache.py",
        (
            "the inventory ignores its cache",
            "    if cache and kept and cache.is_fresh(kept):\n",
            "    if False:\n",
            "test_a_recent_answer_is_used_without_a_request",
        ),
    ),
)
