# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A checkpoint store in a folder, one operation per blob, that can simulate a killed, failing or slow uploader."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.checkpoint.store import OnUploaded, Stored
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed


class Killed(BaseException):
    """The process is killed. The code under test never catches this, like SIGKILL."""


@dataclass
class Faults:
    """The failures to simulate.

    :ivar kill_at: the number of the operation, from 1, at which the process is killed; 0 for never.
    :ivar torn: whether that operation, if it writes, leaves half of its blob. Blob storage never does.
    :ivar done_first: whether that operation completes before the process is killed.
    :ivar fail_at: the number of the operation that fails.
    :ivar slow_s: seconds that each write takes.
    :ivar before: called before each operation with its number and its text.
    """

    kill_at: int = 0
    torn: bool = False
    done_first: bool = False
    fail_at: int = 0
    slow_s: float = 0.0
    before: Callable[[int, str], None] | None = None


@dataclass
class FolderStore:
    """The blobs below a folder.

    :ivar log: the operations as text.
    :ivar stale: blobs that exist but are not in any listing yet.
    """

    folder: Path
    faults: Faults = field(default_factory=Faults)
    log: list[str] = field(default_factory=list)
    stale: set[str] = field(default_factory=set)

    @property
    def work(self) -> str:
        """See ``Store``."""
        made = self.folder.with_name(f"{self.folder.name}.work")
        made.mkdir(parents=True, exist_ok=True)
        return str(made)

    @property
    def most_text(self) -> int:
        """See ``Store``."""
        return 1 << 40

    def list(self, folder: str, most: int = 0) -> Sequence[Stored]:
        """See ``Store``."""
        self._operation(f"list {folder}")
        found = []
        for path in sorted((self.folder / folder).rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if path.is_file() and name not in self.stale and not path.name.endswith(".being-written"):
                # Another uploader may prune it at the same time.
                with contextlib.suppress(FileNotFoundError):
                    found.append(Stored(name, path.stat().st_size, path.stat().st_mtime))
        if most and len(found) > most:
            raise CommandFailed(f"{folder} has more than {most} blobs")
        return found

    def put(self, source: str, names: Sequence[str], folder: str, on_uploaded: OnUploaded | None = None) -> None:
        """See ``Store``."""
        carried = 0
        for name in names:
            data = (Path(source) / name).read_bytes()
            self._operation(f"put {folder}{name}", functools.partial(self._write, f"{folder}{name}", data))
            if self.faults.slow_s:
                time.sleep(self.faults.slow_s)
            carried += len(data)
            if on_uploaded:
                on_uploaded(carried)

    def get(self, folder: str, names: Sequence[str], target: str, most: int = 0) -> None:
        """See ``Store``."""
        carried = 0
        for name in names:
            self._operation(f"get {folder}{name}")
            path = self.folder / folder / name
            carried += path.stat().st_size if path.exists() else 0
            if most and carried > most:
                raise CommandFailed(f"{folder} has more than {most} bytes")
            made = Path(target) / name
            made.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(self.folder / folder / name, made)
            except FileNotFoundError:
                raise CommandFailed(f"{folder}{name} is not there") from None

    def remove(self, names: Sequence[str]) -> None:
        """See ``Store``."""
        for name in names:
            self._operation(f"remove {name}", functools.partial((self.folder / name).unlink, missing_ok=True))

    def names(self) -> Sequence[str]:
        """Return the names of all blobs."""
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file())

    def _write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{threading.get_ident()}.being-written")
        temporary.write_bytes(data)
        os.replace(temporary, path)

    def _operation(self, words: str, do: Callable[[], object] = lambda: None) -> None:
        self.log.append(words)
        number = len(self.log)
        if self.faults.before:
            self.faults.before(number, words)
        if number == self.faults.fail_at:
            raise CommandFailed(f"{words}: the account throttles")
        if number != self.faults.kill_at:
            do()
            return
        if self.faults.done_first:
            do()
        elif self.faults.torn and words.startswith("put "):
            do()
            path = self.folder / words[len("put ") :]
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        raise Killed(words)
