# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words and phrases that are hard to read, and plain words for them."""

from __future__ import annotations

import pathlib
import re
import subprocess

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
    r"(?<!\")\b(?-i:promise[sd]?)\b": "expected",
    r"\bas far as\b": "where, up to",
    r"\bby which right\b": "credentials",
    r"\bin its order\b": "in order",
    r"\btakes? (?:it|them|that) for\b": "treats it as",
    r"\bof ours\b": "ours, that the collection made",
    r"\bheeds?\b": "follows, reads",
    r"\bin the midst\b": "during",
    r"\bnobody else's\b": "say whose",
    r"\bby (?:itself|themselves)\b": "automatically, alone",
    r"(?<!for )\bso long\b(?! as)": "say for which time",
    r"\bbears?\b": "has",
    r"\bbrings (?!(?:\w+ )?(?:back|up)\b)": "installs, has, adds",
    r"\bstands\b(?! (?:for|in)\b)": "is",
    r"\b(?:is|are) (?:not )?(?-i:whole)\b(?! seconds)": "complete, healthy",
    r"\brefused by name\b": "refuses it, and names it",
    r"\bcosts it\b": "takes",
    r"\bcarr(?:y|ies) so much\b": "has a limit",
    r"(?:^|[.:] )who has [^.?]{1,60} gets\b": "a user with ... gets",
    r"\bout by us\b": "that the collection drained",
    r"\bit is his\b": "say whose",
    r"\bor ever\b": "or forever",
    r"\bfirst asked\b": "gets SIGTERM",
    r"\bfor absence only\b": "a fallback",
    r"\bnobody checks\b": "is skipped, is not checked",
}
"""A pattern, and plain words for it. Not here, because they are mostly used in their usual sense: whole, quiet, a word,
by name, told."""
READ = {".md", ".rst", ".yml", ".py", ".j2", ".sh", ".toml", ".js", ".html", ".lib", ".lua", ".json", ".svg"}
NOT_PROSE = (
    "LICENSES/",
    "changelogs/changelog.yaml",
    "CHANGELOG.md",
    "tests/setup/blob/package-lock.json",
    "tests/unit/house/test_words.py",
)
RECENT = 30
UNCLEAR = (
    "or loudly what takes its place",
    "A node that has not what its VM size promises is left behind",
    "A converged compute node costs it fewer than 60 tasks",
    "no host is lost without a word",
    "A disk that holds anything it did not make is refused by name",
    "further names are for absence only",
    "nobody checks the address ranges",
    "Records of the last boot count for nothing",
    "what bears the name of a job that runs no more, as the user whose it is",
    "ends with the first node that is not whole",
    "It is told",
    "first asked, five seconds later killed",
    "A node that lost a disk is ill",
    "The warning is meant",
    "By which right",
    "An account carries so much, and throttles beyond it",
    "Who has two jobs on the node gets the newer one",
    "A vault's URL that is none",
    "each by itself, and no more of them out than may be",
    "a node that is out by us",
    "gave it another reason: it is his",
    "So long must the daemon have answered",
    "waits for minutes, or ever",
    "for the 2. time",
    "a variable that is told of itself anew would never end",
    "Keep the wishes for each boot",
)
"""Sentences that readers had to read twice."""


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
    read = [
        file
        for file in files
        if (file.suffix in READ or file.name == "Makefile") and not str(file).startswith(NOT_PROSE)
    ]
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


def test_subjects_of_recent_commits_contain_no_odd_phrases(repository: pathlib.Path) -> None:
    """Only recent ones, because older ones cannot be changed. A shallow clone has fewer, an archive has none."""
    words = ["git", "log", "--no-merges", f"--max-count={RECENT}", "--format=%s"]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)
    found = {subject: odd_phrases(subject) for subject in done.stdout.splitlines()}
    assert not {subject: phrases for subject, phrases in found.items() if phrases}


@pytest.mark.parametrize("text", UNCLEAR)
def test_finds_each_unclear_sentence(text: str) -> None:
    assert odd_phrases(text)
