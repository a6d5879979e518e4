# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a file system that users share can still be written."""

from __future__ import annotations

import errno
import os
import tempfile


def why_not_written(folder: str) -> str:
    """Write a byte to a new file in a folder; return why that fails, or nothing if it does not.

    A full file system is not a reason: users can fill it, and no user may cause a node to be drained.
    """
    try:
        # Users write there too, so the name cannot be guessed.
        handle, path = tempfile.mkstemp(prefix=".hpcai-", dir=folder)
        try:
            os.write(handle, b"x")
        finally:
            os.close(handle)
            os.unlink(path)
    except OSError as error:
        return "" if is_full(error) else str(error.strerror)
    return ""


def is_full(error: OSError) -> bool:
    """Whether the error says that there is no space, no inode or no quota left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
