# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests the usual operations of a file system in one of its folders: ``python operations.py DIR``."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIB = 1 << 20


def attributes() -> None:
    """Test sizes, owners, modes and times; a setgid folder passes its group on."""
    os.mkdir("d", 0o750)
    file = Path("d/a")
    file.write_bytes(b"x" * 1000)
    os.truncate(file, 10)
    os.truncate(file, 20)
    assert file.read_bytes() == b"x" * 10 + b"\0" * 10
    os.chown(file, 1234, 2345)
    os.chmod(file, 0o2640)
    os.utime(file, ns=(1, 2 * 10**9 + 3))
    found = file.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (1234, 2345, 0o2640)
    assert found.st_mtime_ns == 2 * 10**9 + 3
    os.mkdir("g")
    os.chown("g", 0, 77)
    os.chmod("g", 0o2775)
    os.mkdir("g/g")
    found = os.stat("g/g")
    assert (found.st_gid, found.st_mode & 0o2000) == (77, 0o2000)
    os.rmdir("g/g")
    os.rmdir("g")
    assert os.statvfs(".").f_blocks > 0


def names() -> None:
    """Test links, renaming over an existing file, odd names, and calls that must fail."""
    os.symlink("a", "d/s")
    os.link("d/a", "d/l")
    assert os.readlink("d/s") == "a"
    assert os.stat("d/s").st_nlink == 2
    os.rename("d/l", "b")
    Path("victim").write_text("old", encoding="ascii")
    os.rename("b", "victim")
    assert os.stat("victim").st_size == 20
    assert sorted(os.listdir()) == ["d", "victim"]
    refused(errno.ENOTEMPTY, os.rmdir, "d")
    refused(errno.EISDIR, os.unlink, "d")
    refused(errno.ENOENT, os.stat, "no")
    refused(errno.EEXIST, os.mkdir, "d")
    refused(errno.ENAMETOOLONG, os.mkdir, "n" * 256)
    odd = b"\xff strange \n name"
    os.close(os.open(odd, os.O_CREAT | os.O_WRONLY))
    assert odd in os.listdir(b".")
    os.unlink(odd)


def refused(number: int, call: Callable[[str], Any], path: str) -> None:
    """Check that a call fails with this error number."""
    answer = 0
    try:
        call(path)
    except OSError as error:
        answer = error.errno or 0
    assert answer == number, (path, answer)


def content() -> None:
    """Test holes, an open file that is unlinked, and appending."""
    sparse = os.open("sparse", os.O_RDWR | os.O_CREAT)
    os.pwrite(sparse, b"end", 3 * MIB)
    assert os.pread(sparse, 4, 700 * 1024) == b"\0" * 4
    assert os.fstat(sparse).st_size == 3 * MIB + 3
    os.fsync(sparse)
    os.unlink("sparse")
    assert os.pread(sparse, 3, 3 * MIB) == b"end"
    os.close(sparse)
    for word in ("one ", "two"):
        with open("log", "a", encoding="ascii") as out:
            out.write(word)
    assert Path("log").read_text(encoding="ascii") == "one two"


def threads() -> None:
    """Test eight threads that write and read at once."""
    done = []

    def work(number: int) -> None:
        file, text = Path(f"thread{number}"), bytes([number]) * (300_000 + number)
        for _round in range(5):
            file.write_bytes(text)
            assert file.read_bytes() == text, number
        done.append(number)

    running = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert len(done) == 8, done


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    attributes()
    names()
    content()
    threads()
