# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Hides secrets in text: values that follow a secret's name, and values that look like a secret.

Users can write anything into logs, so each pattern has bounds that keep the time linear.

This is the second line of defence. The first one is the catalogue, which opens no file with a key, and the rules of
settings.py, which show only known settings. A pattern hides too much rather than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_SHORTEST_LEARNED = 6
"""Shorter values are not replaced everywhere: ``yes`` or ``1234`` occur in other places too."""

_NAMES = (
    r"passw(?:or)?d|passwd|(?<!by)pass(?:phrase|word)?|pwd|secrets?|tokens?|api[_-]?keys?|access[_-]?keys?|account[_-]?keys?"
    r"|shared[_-]?keys?|private[_-]?keys?|client[_-]?keys?|encryption[_-]?keys?|_KEY|credentials?|jwt|sas"
    r"|sig|signature|cookie|(?:user|custom)[_-]?data|munge[_-]?key"
)
SECRET_NAME = re.compile(rf"(?:^|.*[\W_a-z0-9])(?:{_NAMES})$", re.IGNORECASE)
"""The name of a setting whose value is a secret."""

_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE[A-Z ]{0,40}-----")
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,80}-----")
_MOST_KEY_LINES = 200
"""A key of RSA with 16384 bits has 199 lines of 64 characters. If no end follows within so many lines, somebody wrote
only the beginning, perhaps to hide the rest of a log."""
# The last of so many lines and those after it, if they end like lines of a key, and a further one that may be short.
_PREFIX, _END = r"\n(?:[^\n]{0,200}[ \t])?[A-Za-z0-9+/]", r"={0,2}(?=\n|\Z)"
_LONGER_KEY = re.compile(rf"(?:{_PREFIX}{{40,}}{_END})+(?:{_PREFIX}{{1,76}}{_END})?")

# In JSON, in JSON inside of a text of JSON, in quotes, or up to a blank.
_VALUE = r"""\\+".*?(?:\\+"(?=\s*[,}\]])|(?=\n)|\Z)|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|[^\s,;]+"""
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("JWT", re.compile(r"eyJ[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*){0,4}")),
    ("SAS", re.compile(r"(?<=[?&])s[a-z]{1,4}=[^\s\"'<>]{0,600}\bsig=[^\s\"'<>]*|\bsig=[^\s&\"'<>]+", re.IGNORECASE)),
    ("authorization", re.compile(r"(?<=uthorization)[\"']?\s*[:=]\s*[\"']?(?:\w+\s+)?[^\s\"']+", re.IGNORECASE)),
    ("bearer token", re.compile(r"\b(?<=bearer )\S+", re.IGNORECASE)),
    ("munge credential", re.compile(r"MUNGE:[A-Za-z0-9+/=]+:?")),
    ("URL password", re.compile(r"(?<=://)[^/\s:@\"']*:[^/\s@\"']+(?=@)")),
    ("password hash", re.compile(r"\$(?:1|2[abxy]|5|6|7|y|gy)\$[./A-Za-z0-9$=,]{8,}")),
    # Prefixes of GitHub, Hugging Face, OpenAI, Slack, GitLab, NVIDIA NGC, AWS, Google and npm.
    (
        "token",
        re.compile(
            r"\b(?:gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}"
            r"|xox[abeprs]-[\w-]{8,}|glpat-[\w-]{12,}|nvapi-[\w-]{16,}|A[KS]IA[0-9A-Z]{12,}|AIza[\w-]{20,}"
            r"|npm_[A-Za-z0-9]{20,})"
        ),
    ),
    # A client secret of Entra ID: three characters, a digit, "Q~", and about 32 more.
    ("client secret", re.compile(r"[A-Za-z0-9_.~-]{3}\dQ~[A-Za-z0-9_.~-]{20,}")),
    # A storage account's key: 64 bytes in base64.
    ("account key", re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}==")),
)
_NAMED = re.compile(rf"(?P<name>(?:{_NAMES})\\*[\"']?\s*(?:=>|[:=])\s*)(?P<value>{_VALUE})", re.IGNORECASE)
# The value of an environment variable or of a line "export NAME=value" may contain blanks.
_VARIABLE = re.compile(
    r"(?P<name>\b[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|CREDENTIALS?|JWT|SAS)=)(?P<value>[^\n]+)"
)
_OPTION = re.compile(rf"(?P<name>(?<![\w-])--?[\w-]{{0,40}}(?:{_NAMES})\s+)(?P<value>(?!-)\S+)", re.IGNORECASE)
_HEXADECIMAL = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}[: ]?){31,}[0-9A-Fa-f]{2}(?![0-9A-Fa-f])")
_LONG_RUN = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{40,}={0,2}")
# Escape sequences of terminals, and control characters except tabulator and line break.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_REPLACED = "\ufffd"
_MOST_REPLACED = 8
"""A line with more bytes than this that are not UTF-8 is binary."""


def _mark(kind: str) -> str:
    return f"<hidden: {kind}>"


def looks_random(run: str) -> bool:
    """Whether a long run of letters and digits is probably a key in base64, and not a path or a name."""
    upper, lower = sum(map(str.isupper, run)), sum(map(str.islower, run))
    digits = sum(map(str.isdigit, run))
    enough = max(4, len(run) // 12)
    return upper >= enough and lower >= enough and digits >= max(3, len(run) // 20) and run.count("/") <= len(run) // 12


@dataclass
class Redactor:
    """Hides secrets in the texts of one archive, and counts them.

    :ivar learned: values of secret settings, which are hidden in all texts.
    """

    learned: set[str] = field(default_factory=set)

    def learn(self, values: Iterable[str]) -> None:
        """Hide these values in all texts."""
        self.learned.update(value for value in values if len(value) >= _SHORTEST_LEARNED)

    def hide_learned(self, text: str) -> tuple[str, int]:
        """Return the text without the learned values, and how many were hidden."""
        count = 0
        # The longest first, because one may contain another.
        for value in sorted(self.learned, key=len, reverse=True):
            count += text.count(value)
            text = text.replace(value, _mark("setting"))
        return text, count

    def redact(self, text: str) -> tuple[str, int]:
        """Return the text without secrets, and how many were hidden."""
        text, count = self.hide_learned(_CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
        text, found = _hide_keys(text)
        count += found
        for kind, pattern in _PATTERNS:
            text, found = pattern.subn(_mark(kind), text)
            count += found
        for pattern in (_VARIABLE, _NAMED, _OPTION):
            text, found = _hide_values(pattern, text)
            count += found
        text, found = _HEXADECIMAL.subn(_mark("long number"), text)
        count += found
        text, found = _hide_runs(text)
        lines = text.split("\n")
        binary = [place for place, line in enumerate(lines) if line.count(_REPLACED) > _MOST_REPLACED]
        for place in binary:
            lines[place] = _mark("binary")
        return "\n".join(lines), count + found + len(binary)


def _hide_keys(text: str) -> tuple[str, int]:
    """Hide blocks with a private key."""
    made = []
    place = 0
    begins = _KEY_BEGINS.search(text)
    while begins is not None:
        made += [text[place : begins.start()], _mark("private key")]
        place = _end_of_key(text, begins.end())
        begins = _KEY_BEGINS.search(text, place)
    return "".join([*made, text[place:]]), len(made) // 2


def _end_of_key(text: str, start: int) -> int:
    """Return where a block with a private key ends; if it has no end, where its last possible line ends."""
    limit = start
    for _line in range(_MOST_KEY_LINES + 1):
        limit = text.find("\n", limit) + 1 or len(text)
    ends = _KEY_ENDS.search(text, start, limit)
    if ends is not None or limit == len(text):
        return ends.end() if ends else limit
    longer = _LONGER_KEY.match(text, text.rfind("\n", 0, limit - 1))
    return max(longer.end() if longer else 0, limit - 1)


def _hide_values(pattern: re.Pattern[str], text: str) -> tuple[str, int]:
    count = 0

    def hide(match: re.Match[str]) -> str:
        nonlocal count
        # Values that say that there is no secret, and those hidden already.
        if match["value"].strip("\\\"'") in ("", "(null)", "null", "none", "None", "no") or "<hidden" in match["value"]:
            return match[0]
        count += 1
        return f"{match['name']}{_mark('named secret')}"

    return pattern.sub(hide, text), count


def _hide_runs(text: str) -> tuple[str, int]:
    count = 0

    def hide(match: re.Match[str]) -> str:
        nonlocal count
        if not looks_random(match[0]):
            return match[0]
        count += 1
        return _mark("long random text")

    return _LONG_RUN.sub(hide, text), count
