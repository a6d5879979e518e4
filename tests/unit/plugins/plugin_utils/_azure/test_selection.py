# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which scale sets and VMs the options select."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.selection import Selection

from .instances import SUBSCRIPTION, make_facts, make_scale_set


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [((), True), (("gpu-a",), True), (("GPU-*",), True), (("gpu",), False), (("x", "*-[ab]"), True), (("*-b",), False)],
)
def test_selects_scale_sets_by_name_pattern(patterns: tuple[str, ...], expected: bool) -> None:
    selection = Selection((SUBSCRIPTION,), scale_sets=patterns)

    assert selection.wants_scale_set(make_scale_set("gpu-A")) is expected


@pytest.mark.parametrize(
    ("location", "expected"), [("West US", True), ("westus", True), ("eastus", False), (None, False)]
)
def test_selects_locations_in_any_spelling(location: str | None, expected: bool) -> None:
    selection = Selection((SUBSCRIPTION,), locations=("WestUS",))

    assert selection.wants_scale_set(make_scale_set(location=location)) is expected


@pytest.mark.parametrize(
    ("include", "with_role", "without_role"), [("none", False, False), ("tagged", True, False), ("all", True, True)]
)
def test_include_vms_selects_stand_alone_vms(include: str, with_role: bool, without_role: bool) -> None:
    selection = Selection((SUBSCRIPTION,), include_vms=include)

    assert selection.wants_stand_alone(make_facts(tags={"hpcai_role": "login"})) is with_role
    assert selection.wants_stand_alone(make_facts(tags={"hpcai_role": ""})) is without_role
