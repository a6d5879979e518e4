# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tasks registered comes out of hostvars without templating, and as plain values."""

from __future__ import annotations

from typing import Any

from ansible_collections.hpcai.azure.plugins.plugin_utils._report.registered import registered

RESULT = {"health": {"checks": [{"name": "gpu_count", "readings": [{"value": 8}]}]}}


class HostVars(dict[str, Any]):
    """As Ansible's own: an item is templated, what raw_get gives is not."""

    def __init__(self, raw: dict[str, Any], templated: dict[str, Any] | None = None) -> None:
        super().__init__(templated or {})
        self.raw = raw

    def __contains__(self, host: object) -> bool:
        return host in self.raw

    def raw_get(self, host: str) -> Any:
        """What nobody has gone over."""
        return self.raw[host]


class Text(str):
    """As Ansible's strings: one that has more to it."""


def test_a_result_is_not_templated() -> None:
    # An item would be a KeyError.
    assert registered(HostVars({"n-0": {"checked": RESULT}}), "n-0", "checked") == RESULT


def test_a_template_that_leads_to_a_result_is() -> None:
    raw, templated = {"n-0": {"checked": "{{ other }}"}}, {"n-0": {"checked": RESULT}}
    assert registered(HostVars(raw, templated), "n-0", "checked") == RESULT


def test_what_is_not_there_is_none() -> None:
    assert registered(HostVars({"n-0": {}}), "n-0", "checked") is None
    assert registered(HostVars({}), "n-0", "checked") is None


def test_values_are_plain_and_a_mapping_will_do() -> None:
    found = registered({"n-0": {"checked": {Text("a"): (Text("b"), 1, None)}}}, "n-0", "checked")
    assert found == {"a": ["b", 1, None]}
    assert {type(found), type(found["a"]), *map(type, found["a"]), *map(type, found)} == {
        dict,
        list,
        str,
        int,
        type(None),
    }
