# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Log lines in the format of the real programs."""

from __future__ import annotations

import datetime
import threading
from pathlib import Path

_lock = threading.Lock()


class Log:
    """A log file, or standard output if no file is configured."""

    def __init__(self, file: str) -> None:
        self._file = Path(file or "/dev/stdout")

    def __call__(self, context: str, text: str, level: int = 1) -> None:
        """Write one line."""
        now = datetime.datetime.now().strftime("%b%d %X")
        with _lock, self._file.open("a", encoding="utf-8") as out:
            out.write(f"({level}) {now} {threading.current_thread().name} [{context}] >> {text}\n")
