# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files get mutants, and which tests run against them."""

from __future__ import annotations

from mutation import health_checks


def test_each_pattern_matches_files_and_each_file_has_tests() -> None:
    for pattern in health_checks.SOURCES:
        assert list(health_checks.HEALTH.glob(pattern)), pattern
    without = [source.name for source in health_checks.sources() if not health_checks.tests_of(source)]
    assert not without


def test_a_file_without_own_tests_uses_those_of_its_importers() -> None:
    own = health_checks.tests_of(health_checks.HEALTH / "checks/nvme.py")
    assert [test.name for test in own] == ["test_nvme.py"]
    others = health_checks.tests_of(health_checks.HEALTH / "log_signs.py")
    names = ("gpu_log", "hardware_errors", "ib_errors", "kernel_log")
    assert [test.name for test in others] == [f"test_{name}.py" for name in names]
