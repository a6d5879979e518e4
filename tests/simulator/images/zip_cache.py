# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Caches the code that Python compiles from zip archives, by its source text.

Ansible sends each module and its imports in an archive, and Python compiles them each time. That is a third of a task's
work if all nodes of a test share the few CPUs of one machine, or have emulated CPUs. hpcai_zip_cache.pth imports this
file at each start of Python; without it nothing is cached.
"""

from __future__ import annotations

import marshal
import os
import types
import zipimport

# hashlib would load all of OpenSSL at each start.
from _sha1 import sha1  # type: ignore[import-not-found]

FOLDER = "/var/cache/hpcai-zip"
_compile = vars(zipimport)["_compile_source"]


def _kept(pathname: str, source: bytes) -> types.CodeType:
    path = f"{FOLDER}/{sha1(source).hexdigest()}"
    code: types.CodeType
    try:
        with open(path, "rb") as file:
            code = marshal.load(file)
        return code
    except (OSError, EOFError, ValueError, TypeError):
        # Not cached yet, or truncated by the power cut of a test.
        code = _compile(pathname, source)
    own = f"{path}.{os.getpid()}"
    try:
        with open(own, "wb") as file:
            marshal.dump(code, file)
        os.replace(own, path)
    except OSError:
        # The disk is full, or this is not root.
        pass
    return code


vars(zipimport)["_compile_source"] = _kept
