# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words and phrases that are hard to read, and plain words for them."""

from __future__ import annotations

import pathlib
import re

import pytest

PLAIN: dict[str, str] = {
    r"\b(?:is|are|was|were|be) told\b|\btells? of\b|\btold of\b|\btelling\b": "report, say",
    r"\banew\b|\bafresh\b": "again",
    r"\bbears? (?:a|the|its|that) name\b|\bbears the\b": "has the name",
    r"\bwhose (?:it|they|he) (?:is|are)\b": "name the owner",
    r"\bloudly\b": "with a warning",
    r"\bwithout a word\b|\bsays? no word\b|\bnot a word\b": "silently, without a message",
    r"\b(?:that|which) (?:is|are) (?-i:none)\b|(?<!there )\b(?:is|are) (?-i:none)\.": "say what is missing or invalid",
    r"\bcounts? for nothing\b": "is ignored",
    r"\bwhat lies\b|\blies there\b|\bwhat stands there\b": "say what is there",
    r"\b(?:is|are) meant\b": "is expected, is selected",
    r"\bput back\b": "requeue, restore",
    r"\bfor the \d+\. time\b": "for the second time",
    r"\b(?:is|are|was|falls?|fell) ill\b|\bill nodes?\b": "faulty",
    r"\bwishes\b": "settings, options",
    r"(?<!\")\bpromise[sd]?\b": "expected",
    r"\bas far as\b": "where, up to",
    r"\bby which right\b": "credentials",
    r"\bin its order\b": "in order",
    r"\btakes? (?:it|them|that) for\b": "treats it as",
    r"\bof ours\b": "ours, that the collection made",
    r"\bheeds?\b": "follows, reads",
    r"\bin the midst\b": "during",
    r"\bnobody else's\b": "say whose",
}
"""A pattern, and plain words for it."""
READ = {".md", ".rst", ".yml", ".py", ".j2", ".sh", ".toml"}
NOT_PROSE = ("LICENSES/", "changelogs/changelog.yaml", "CHANGELOG.md", "tests/", "molecule/")


def prose(text: str) -> str:
    """The text on one line without comment signs, so that a phrase that is split over two lines is found too."""
    return " ".join(re.sub(r"^\s*(?:#+|//|--|\.\.)?\s*", "", line).strip() for line in text.splitlines())


def odd_phrases(text: str) -> list[str]:
    """The phrases in a text that match PLAIN, with their replacements."""
    joined = prose(text)
    return [
        f"{joined[max(0, found.start() - 30) : found.end() + 30]!r}: {better}"
        for pattern, better in PLAIN.items()
        for found in re.finditer(pattern, joined, re.IGNORECASE)
    ]


def test_texts_contain_no_odd_phrases(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> None:
    read = [file for file in files if file.suffix in READ and not str(file).startswith(NOT_PROSE)]
    assert len(read) > 300
    found = {str(file): odd_phrases((repository / file).read_text(encoding="utf-8")) for file in read}
    assert not {file: phrases for file, phrases in found.items() if phrases}


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("# It is told\n# at once", "report, say"),
        ("A node that\n    is ill", "faulty"),
        ("no host is lost without\na word", "silently, without a message"),
        ("for the 2. time", "for the second time"),
    ],
)
def test_finds_a_phrase_that_is_split_over_comment_lines(text: str, better: str) -> None:
    assert [found.rpartition(": ")[2] for found in odd_phrases(text)] == [better]
