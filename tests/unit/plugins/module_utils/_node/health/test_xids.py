# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The catalogue of XIDs, compared with a second copy of the lists that it is made from."""

from __future__ import annotations

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import ACTIONS, USER
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.xids import ERROR, SOURCES, WARNING, XIDS, xid_of

WARNINGS_OF_HEALTHAGENT = {43, 63, 13, 31, 66, 94, 154}
ERRORS_OF_AZNHC = {48, 56, 57, 58, 62, 63, 64, 65, 68, 69, 73, 74, 79, 80, 81, 92, 119, 120}


def test_warnings_of_healthagent_are_warnings() -> None:
    assert {number for number in WARNINGS_OF_HEALTHAGENT if XIDS[number].severity != WARNING} == set()


def test_errors_of_aznhc_are_errors_unless_healthagent_only_warns() -> None:
    errors = {number for number, xid in XIDS.items() if xid.severity == ERROR}
    assert errors >= ERRORS_OF_AZNHC - WARNINGS_OF_HEALTHAGENT
    # Not in the other two lists; NVIDIA recommends a reset, a restart or a check of the hardware.
    others = {46, 54, 95, 109, 110, 136, 140, 143, *range(144, 151), 151, 155, 156, 158}
    assert errors - ERRORS_OF_AZNHC == others


def test_xids_caused_by_users_are_warnings_without_a_fault_code() -> None:
    of_users = {number: xid for number, xid in XIDS.items() if xid.cause == USER}
    assert set(of_users) == {11, 13, 25, 31, 32, 43, 45}
    assert {(xid.severity, xid.fault) for xid in of_users.values()} == {(WARNING, "")}


def test_four_xids_have_their_own_fault_codes() -> None:
    faults = {number: xid.fault for number, xid in XIDS.items() if xid.fault not in ("", "NHC2001")}
    assert faults == {95: "NHC2011", 94: "NHC2012", 79: "NHC2013", 48: "NHC2014"}


def test_an_unknown_xid_is_a_warning() -> None:
    assert (xid_of(999).severity, xid_of(999).sources, xid_of(999).number) == (WARNING, "", 999)


def test_each_xid_has_a_meaning_an_action_and_a_source() -> None:
    for number, xid in XIDS.items():
        assert xid.number == number
        assert xid.meaning
        assert xid.action in ACTIONS
        assert set(xid.sources.split(", ")) <= set(SOURCES)
