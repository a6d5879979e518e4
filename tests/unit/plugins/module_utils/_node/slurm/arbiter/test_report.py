# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's report, encoded as one word of text."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.report import (
    LONGEST,
    MOST_FAULTS,
    Fault,
    Report,
    UnreadableReport,
    decode,
    encode,
)

from .playing import FULL, LOST, report

NASTY = 'GPU "0": State=DOWN;f=x:y, 100 % [root@2026-01-01T00:00:00] Reason=\tnone\nü'


@pytest.mark.parametrize(
    "decoded",
    [
        report(),
        report(LOST, FULL, more=3, unknown=("ib_rate", "nvme_smart")),
        report(vm_id="", host=""),
        Report(0),
    ],
)
def test_a_report_is_decoded_as_it_was_encoded(decoded: Report) -> None:
    assert decode(encode(decoded)) == decoded


def test_a_report_is_one_plain_word_whatever_it_contains() -> None:
    text = encode(report(Fault("mounts", "observe", NASTY), host='a b";='))
    assert text.startswith("hpcai-health/1;t=")
    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & set(" \"'\\")
    fault = decode(text).faults[0]
    assert fault.summary == NASTY.replace("ü", "?").replace("\t", " ").replace("\n", " ")


def test_a_report_has_a_length_limit_and_counts_what_does_not_fit() -> None:
    faults = [Fault(f"check_with_a_long_name_{n}", "observe", ";" * 4000) for n in range(40)]
    text = encode(report(*faults, host="h" * 200, unknown=tuple(f"unknown_{n}" for n in range(50))))
    decoded = decode(text)
    assert len(text) <= LONGEST
    assert decoded.failed == 40
    assert 1 <= len(decoded.faults) < MOST_FAULTS
    assert len(decoded.faults[0].summary) == 120
    assert decoded.is_unknown("unknown_0")
    assert decoded.is_unknown("unknown_49")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rack 4", "not written by hpcnode"),
        ("hpcai-health/2;t=1", "it has version 2, but this hpcnode reads version 1"),
        ("hpcai-health/1;t=now;b=;v=;h=", "damaged"),
        ("hpcai-health/1;t=1", "damaged"),
        ("hpcai-health/1;t=1;b=;v=;h=;f=gpu_count", "damaged"),
        (f"hpcai-health/1;t={'9' * 400};b=;v=;h=", "not a number of at most 11 digits"),
        ("hpcai-health/1;t=-5;b=;v=;h=", "not a number"),
        (f"hpcai-health/1;t=1;b=;v=;h=;n={'9' * 5000}", "not a number"),
        (f"hpcai-health/1;t=1;b=;v=;h=;f=a:observe:{'9' * 400}:x", "not a number"),
        ("hpcai-health/1;t=1;b=;v=;h=;f=a b:observe:1:x", "not the name of a check"),
    ],
)
def test_an_invalid_report_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(UnreadableReport, match=words):
        decode(text)


def test_control_characters_in_a_report_are_replaced() -> None:
    """A NUL byte in a drain reason would stop the arbiter: no command can have it in an argument."""
    decoded = decode("hpcai-health/1;t=1;b=%00;v=%0a;h=%1b%5b2J;f=gpu_count:observe:1:a%00b%0ac%c3%bc")
    assert (decoded.boot, decoded.vm_id, decoded.host, decoded.faults[0].summary) == ("?", "?", "?[2J", "a?b?c?")


def test_reports_that_differ_only_in_time_are_alike() -> None:
    assert report(LOST, age=10).is_like(report(LOST, age=700))
    assert not report(LOST).is_like(report())
    assert not report().is_like(None)
