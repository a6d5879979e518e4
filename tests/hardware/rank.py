# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A rank of a job, for the emulated machine: rank.py NAME [busy=THREADS] [mib=MEMORY] [astray=CPU]."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time

NAME, *WORDS = sys.argv[1:]
SETTINGS = dict(word.split("=", 1) for word in WORDS)


def work() -> None:
    """Use a CPU all the time, in parallel with the other threads."""
    while True:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 200_000)


def wander() -> None:
    """Run on another CPU than the process."""
    os.sched_setaffinity(0, {int(SETTINGS["astray"])})
    time.sleep(3600)


memory = b"x" * (int(SETTINGS.get("mib", "0")) << 20)
for _thread in range(int(SETTINGS.get("busy", "0"))):
    threading.Thread(target=work, daemon=True).start()
if "astray" in SETTINGS:
    threading.Thread(target=wander, daemon=True).start()
time.sleep(0.2)
with open(f"/run/ranks/{NAME}.{os.getpid()}", "w", encoding="ascii"):
    pass
time.sleep(3600)
