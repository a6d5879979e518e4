# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clock: synchronised, off, not synchronised, by systemd, in a container, unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.time_sync import TIME_SYNC

from ..playing import context

CHRONY, SYSTEMD = "chronyc -c tracking", "timedatectl show --property=NTPSynchronized --value"


def tracking(offset: str = "0.000000412", leap: str = "Normal") -> str:
    """Return what chronyc prints about a clock that follows the host's."""
    return (
        f"50484330,PHC0,3,1795365590.123456789,{offset},-0.000000110,0.000000734,"
        f"-12.345,0.001,0.021,0.000000001,0.000012345,8.0,{leap}\n"
    )


def measure(answers: dict[str, str | tuple[int, str]], root: Path | None = None, **options: object) -> Answer:
    """Check the clock."""
    return TIME_SYNC.measure(context(root=root, run=answers, options={"time_sync": options}))


@pytest.mark.parametrize("offset", ["0.000000412", "-0.000000412", "1.000000000", "-1.0"])
def test_passes_with_a_synchronised_clock_and_a_small_offset(offset: str) -> None:
    answer = measure({CHRONY: tracking(offset)})
    assert answer.findings == ()
    assert answer.good.startswith("the clock follows PHC0, ")
    assert (answer.readings[0].value, answer.readings[0].at_most) == (abs(float(offset)), True)


@pytest.mark.parametrize("offset", ["1.001", "-1.001", "-3600.5"])
def test_fails_with_a_large_offset(offset: str) -> None:
    (found,) = measure({CHRONY: tracking(offset)}).findings
    assert found.verdict == "fail"
    assert found.summary == f"the clock differs from PHC0 by {abs(float(offset)):.3f} s"


def test_a_limit_of_the_site_wins() -> None:
    assert measure({CHRONY: tracking("1.5")}, offset_s=2).findings == ()
    assert [found.verdict for found in measure({CHRONY: tracking("0.1")}, offset_s=0.01).findings] == ["fail"]


def test_warns_of_a_clock_that_is_not_synchronised(tmp_path: Path) -> None:
    (found,) = measure({CHRONY: tracking(leap="Not synchronised")}, tmp_path).findings
    assert (found.verdict, found.summary) == ("warn", "the clock is not synchronised")
    assert found.hint == "'chronyc sources' shows its sources"
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/ptp_hyperv").touch()
    (found,) = measure({CHRONY: tracking(leap="Not synchronised")}, tmp_path).findings
    assert found.hint.startswith("'chronyc sources' should list /dev/ptp_hyperv")


def test_without_chrony_systemd_is_asked() -> None:
    assert measure({SYSTEMD: "yes\n"}).findings == ()
    assert [found.verdict for found in measure({SYSTEMD: "no\n"}).findings] == ["warn"]


def test_is_skipped_in_a_container(tmp_path: Path) -> None:
    (tmp_path / "run/systemd").mkdir(parents=True)
    (tmp_path / "run/systemd/container").write_text("podman\n", encoding="ascii")
    assert measure({CHRONY: tracking("99")}, tmp_path).skipped == "this is a container, which uses its host's clock"


@pytest.mark.parametrize(
    "answers",
    [
        {CHRONY: (1, "506 Cannot talk to daemon")},
        {CHRONY: (124, "no answer within 2 s")},
        {CHRONY: ""},
        {CHRONY: "50484330,PHC0,3\n"},
        {CHRONY: tracking("soon")},
        {SYSTEMD: "n/a\n"},
        {SYSTEMD: (1, "System has not been booted with systemd as init system")},
        {},
    ],
)
def test_cannot_measure_without_a_valid_answer(answers: dict[str, str | tuple[int, str]]) -> None:
    assert [found.verdict for found in measure(answers).findings] == ["unknown"]
