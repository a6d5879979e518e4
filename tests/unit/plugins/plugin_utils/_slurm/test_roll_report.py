# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a rollout says at its end."""

from __future__ import annotations

from typing import Any

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.roll import report, set_line

SETS = [{"name": "compute", "before": "p:o:s:1", "image": "p:o:s:2", "outdated": ["x", "y"], "current": ["z"]}]


def result(**changes: Any) -> dict[str, Any]:
    """The result of a rollout that had nothing to do, with these changes."""
    empty: dict[str, Any] = {"to_do": [], "reimaged": [], "resumed": [], "drained": [], "left_out": {}, "stopped": ""}
    return {**empty, **changes}


def test_a_set_is_described_in_one_line() -> None:
    assert set_line(SETS[0]) == "compute: p:o:s:2, before p:o:s:1; 1 of 3 instances have it"
    assert set_line({**SETS[0], "before": "p:o:s:2"}) == "compute: p:o:s:2; 1 of 3 instances have it"
    assert ", before an image of a shared or community gallery; 1 of" in set_line({**SETS[0], "before": ""})


def test_a_stop_says_why_and_how_to_go_on_or_back() -> None:
    text = report(result(stopped="compute-3: no quota.", drained=["compute-3"], to_do=["compute-3", "compute-4"]), SETS)

    assert text == (
        "Stopped: compute-3: no quota. Reimaged: none. Resumed: none. Still drained: compute-3. These nodes have "
        "another image: compute-3, compute-4. New instances get the new image. To continue, run this again. To go "
        "back, run it -e image=p:o:s:1."
    )


def test_an_image_without_a_name_is_not_in_the_command_to_go_back() -> None:
    assert report(result(stopped="no."), [{**SETS[0], "before": ""}]).endswith("run it with the image before.")


def test_left_out_nodes_are_named_with_their_reasons() -> None:
    text = report(
        result(reimaged=["compute-0"], resumed=["compute-0"], left_out={"compute-1": "it is DOWN: fan"}), SETS
    )

    assert text.startswith(
        "Reimaged: compute-0. Resumed: compute-0. Left out, with another image: compute-1: it is DOWN"
    )


def test_check_mode_lists_what_would_happen_and_a_long_list_is_cut() -> None:
    many = [f"compute-{number}" for number in range(25)]

    assert report(result(to_do=many), SETS, True).endswith("compute-19 and 5 more.")
