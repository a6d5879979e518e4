# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's configuration files as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


class ConfigError(ValueError):
    """A value that cannot stand in a configuration file of Slurm; the message names the key."""


def render(settings: Mapping[str, Any]) -> str:
    """Return ``Key=value`` lines in the mapping's order.

    A key that is null is left out. A list of scalars is joined with commas; an empty one is left out. True and false
    become YES and NO. A text with a blank is quoted: Slurm's parser takes the blank for the end of the value.

    :raises ConfigError: a value is a mapping, or holds a line break, which would smuggle in another line, or a ``#``,
        after which Slurm would read no further.
    """
    return "".join(f"{key}={_quoted(_text(key, value))}\n" for key, value in settings.items() if not _absent(value))


def render_line(settings: Mapping[str, Any]) -> str:
    """Return one line of ``Key=value`` words, as node and partition lines have them; rules as for ``render``."""
    return " ".join(f"{key}={_quoted(_text(key, value))}" for key, value in settings.items() if not _absent(value))


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, (list, tuple)) and not value)


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(key, item) for item in value)
    if isinstance(value, Mapping):
        raise ConfigError(f"{key} is a mapping; Slurm takes a text, a number, a boolean or a list of them.")
    text = str(value)
    if "\n" in text or "\r" in text:
        raise ConfigError(f"{key} holds a line break, which Slurm's configuration files cannot have in a value.")
    if re.search(r"(?<!\\)#", text):
        raise ConfigError(f"{key} holds a '#', which starts a comment: write it as '\\#'.")
    return text


def _quoted(text: str) -> str:
    return f'"{text}"' if re.search(r"\s", text) and not text.startswith('"') else text
