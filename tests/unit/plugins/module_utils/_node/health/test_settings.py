# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The site's settings of the health checks: what is read, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import TIERS, Answer, Check, Context
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings import (
    FILE,
    SITE,
    Settings,
    in_words,
    source_in_words,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.settings_file import read_settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.table import SOURCES
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.types import Threshold, VmSize

from .playing import context

SIZE = find_size("Standard_ND96asr_v4")
SCRATCH = Check(
    "scratch",
    "Scratch",
    "It is there.",
    TIERS,
    lambda _context: Answer(),
    thresholds=("gpu_host_bandwidth",),
    further_limits=("own", "ecc_sram_errors"),
    options={"free": 5, "paths": ["/scratch"]},
)
CHECKS = (Check("gpu_count", "GPUs", "They are there.", TIERS, lambda _context: Answer()), SCRATCH)


@pytest.fixture(autouse=True)
def made_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of two checks."""
    set_checks(monkeypatch, *CHECKS)


def set_checks(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> None:
    """Set the checks of the catalogue."""
    monkeypatch.setattr(catalog, "NAMES", tuple(check.name for check in checks))
    monkeypatch.setattr(catalog, "all_checks", lambda: checks)


def context_of(settings: Settings) -> Context:
    """Return a check's context with these settings."""
    return replace(context(), settings=settings)


def read(node: Any, **stated: Any) -> Settings:
    """Return the settings of a file with this content."""
    node.write("/etc/hpcai/health.json", json.dumps({"schema": 1, **stated}))
    return read_settings(node.root)


def test_without_a_file_the_limits_of_the_size_apply(node: Any) -> None:
    assert read_settings(node.root) == Settings()
    limit = Settings().threshold(SIZE, "gpu_host_bandwidth")
    assert limit is not None
    assert (limit.limit, limit.source) == (21, "C")
    assert Settings().threshold(SIZE, "no_such") is None
    assert Settings().threshold(None, "gpu_host_bandwidth") is None


def test_the_sites_limit_wins_over_the_sizes(node: Any) -> None:
    settings = read(node, limits={"gpu_host_bandwidth": 24, "ecc_sram_errors": 5})
    limit = settings.threshold(SIZE, "gpu_host_bandwidth")
    assert limit is not None
    assert (limit.limit, limit.unit, limit.at_most, limit.source) == (24, "GB/s", False, "site")
    assert in_words(limit) == "at least 24 GB/s (/etc/hpcai/health.json)"
    errors = settings.threshold(None, "ecc_sram_errors")
    assert errors is not None
    assert (errors.limit, errors.at_most, errors.unit) == (5, True, "errors"), "a maximum, as for other sizes"
    rack = settings.threshold(VmSize("Standard_X"), "gpu_host_bandwidth")
    assert rack is not None
    assert (rack.limit, rack.unit) == (24, "GB/s")


def test_a_limit_in_words_has_its_source() -> None:
    limit = Settings().threshold(SIZE, "nccl_allreduce")
    assert limit is not None
    assert in_words(limit) == "at least 228 GB/s at 8G (azurehpc-health-checks, conf/<size>.conf)"
    errors = Settings().threshold(SIZE, "ecc_sram_errors")
    assert errors is not None
    assert in_words(errors).startswith("at most 10000 errors (")


def test_the_settings_of_the_file_are_used(node: Any) -> None:
    stated = {"off": ["scratch"], "warn_only": ["gpu_count"], "options": {"scratch": {"free": 10}}, "prometheus": "/x"}
    settings = read(node, **stated)
    assert (settings.off, settings.warn_only, settings.prometheus) == (("scratch",), ("gpu_count",), "/x")
    assert context_of(settings).option(SCRATCH, "free") == 10
    assert context_of(settings).option(SCRATCH, "paths") == ["/scratch"]
    assert context_of(settings).option(SCRATCH, "paths", ["/here"]) == ["/here"]
    assert context_of(Settings()).option(SCRATCH, "free") == 5


def test_an_option_that_is_not_in_the_manifest_is_a_defect() -> None:
    with pytest.raises(KeyError):
        context_of(Settings(options={"scratch": {"fre": 1}})).option(SCRATCH, "fre")


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"of": []}, r"there is no key of, did you mean off\?"),
        ({"off": "scratch"}, "off is not a list"),
        ({"off": ["scrach"]}, r"off: there is no check scrach, did you mean scratch\?: correct"),
        ({"off": ["x"]}, "off: there is no check x; valid: gpu_count, scratch: correct"),
        ({"warn_only": [1]}, "warn_only is not a list"),
        ({"warn_only": ["gpu_cuont"]}, "warn_only: there is no check gpu_cuont, did you mean gpu_count"),
        ({"limits": {"gpu_host_bandwith": 1}}, "limits: there is no limit gpu_host_bandwith, did you mean gpu_host_ba"),
        (
            {"limits": {"nccl_alltoall": 1}},
            "limits: there is no limit nccl_alltoall; valid: gpu_host_bandwidth, own",
        ),
        ({"limits": {"own": "1"}}, r"limits.own is '1', but must be a finite number"),
        ({"limits": {"own": True}}, r"limits.own is True, but must be a finite number"),
        ({"limits": {"own": math.nan}}, r"limits.own is nan, but must be a finite number"),
        ({"limits": {"own": -math.inf}}, r"limits.own is -inf, but must be a finite number"),
        ({"options": {"scratch": {"free": math.inf}}}, r"options.scratch.free is inf, but must be like 5"),
        ({"limits": [1]}, "limits is not a mapping"),
        ({"options": {"scrach": {}}}, "options: there is no check scrach, did you mean scratch"),
        ({"options": {"scratch": {"fre": 1}}}, r"options.scratch: there is no option fre, did you mean free\?"),
        ({"options": {"gpu_count": {"fre": 1}}}, r"options.gpu_count: there is no option fre, and there are no others"),
        ({"options": {"scratch": 1}}, r"options.scratch is not a mapping"),
        ({"options": [1]}, r"options is not a mapping"),
        ({"prometheus": "x/y"}, "must be the absolute path"),
        ({"prometheus": 1}, "must be the absolute path"),
    ],
)
def test_invalid_settings_are_refused(node: Any, stated: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(node, **stated)


def test_all_errors_are_reported_at_once(node: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"/etc/hpcai/health\.json: off: .* scrach, .*; limits: .* ownn, .*: correct "
    ):
        read(node, off=["scrach"], limits={"ownn": 1})


KINDS = [("10", 5), (True, 5), (5, True), (["a"], "a"), ("a", ["a"]), ({"a": 1}, "a")]


@pytest.mark.parametrize(("value", "default"), KINDS)
def test_an_option_of_another_type_is_refused(
    node: Any, monkeypatch: pytest.MonkeyPatch, value: Any, default: Any
) -> None:
    check = replace(SCRATCH, options={"free": default})
    set_checks(monkeypatch, check)
    node.write("/etc/hpcai/health.json", json.dumps({"schema": 1, "options": {"scratch": {"free": value}}}))
    with pytest.raises(ConfigError, match=r"options\.scratch\.free is .*, but must be like"):
        read_settings(node.root)
    with pytest.raises(ConfigError, match=r"options\.scratch\.free is .*, but must be like"):
        context_of(Settings(options={"scratch": {"free": value}})).option(check, "free")


@pytest.mark.parametrize(("value", "default"), [(1, 0.5), (0.5, 1), (["a"], ()), ("a", "b"), (False, True)])
def test_an_option_of_its_type_is_accepted(value: Any, default: Any) -> None:
    check = replace(SCRATCH, options={"free": default})
    assert context_of(Settings(options={"scratch": {"free": value}})).option(check, "free") == value


def test_a_limit_in_words_has_its_unit_conditions_and_source() -> None:
    assert in_words(Threshold(228.0, "GB/s", SITE, at="8G")) == f"at least 228 GB/s at 8G ({FILE})"
    assert in_words(Threshold(512.0, "", SITE, at_most=True)) == f"at most 512 ({FILE})"


def test_the_first_source_is_named_without_its_details() -> None:
    letter, words = next((letter, words) for letter, words in SOURCES.items() if ": " in words)
    assert source_in_words(letter) == source_in_words(f"{letter}, {letter}") == words.split(": ")[0]
