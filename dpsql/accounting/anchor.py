"""An anchor: how far a ledger has come, noted outside of it, so that an older copy of the ledger is noticed.

The note is the number of events and the last link. A ledger must hold that link at that place: a newer one does, an
older copy doesn't, and neither does an older copy from which was spent anew until it is as long (Theorem LEDGER-2).
[budget] anchor = "path", or { command = ["program", "argument"] }, which is called with `read` (and prints
"COUNT LINK", or nothing if it has none) or with `write COUNT LINK OLDCOUNT OLDLINK` (without the last two if it had
none): where copies of a ledger may be on several machines, it should compare what it has with the old note and set the
new one in one step, and end with another status than 0 if they differ. It is asked again after it has written. An
anchor protects as well as the place that it lies in.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dpsql.accounting import durable
from dpsql.accounting.keys import DIGEST_BYTES, NEXT, VARIABLE
from dpsql.core.errors import LedgerError
from dpsql.core.frozen import dataclass

SECONDS = 30.0
"""How long a command may take."""


@dataclass(frozen=True, slots=True)
class Note:
    """The place of the last event that is known outside of the ledger, and its link."""

    count: int
    link: bytes

    def __str__(self) -> str:
        return f"{self.count} {self.link.hex()}"


class Anchor:
    """Where the note is kept; never moved back, in however many processes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self) -> Note | None:
        """The note; None if there is none yet. LedgerError if that can't be told."""
        text = self._get()
        if not text.strip():
            return None
        found = re.fullmatch(rf"([1-9][0-9]{{0,17}}) ([0-9a-f]{{{2 * DIGEST_BYTES}}})\s*", text)
        if found is None:
            raise self._failed("says something else than a count and a link")
        return Note(int(found[1]), bytes.fromhex(found[2]))

    def write(self, note: Note, link_at: Callable[[int], bytes | None]) -> None:
        """Move the note on; a later one, of a process that was faster, stays.

        link_at: the ledger's own link at a place, None where it has no such event. A note that this ledger doesn't hold
        is another copy's, whichever of the two is longer, and is never overwritten (Theorem LEDGER-2).
        """
        with self._locked():
            before = self.read()
            if before is not None and link_at(before.count) != before.link:
                raise LedgerError(
                    f"the anchor {self.name} was moved on by another copy of the ledger, to {before.count} events "
                    "that this one doesn't hold",
                    code="ledger-rolled-back",
                    hint="nothing was answered; what was recorded stays charged here. Two copies of one ledger are in "
                    "use: only the one that the anchor knows may go on",
                )
            if before is None or before.count < note.count:
                self._put(note, before)

    @property
    def _lock(self) -> Path:
        raise NotImplementedError

    def _get(self) -> str:
        raise NotImplementedError

    def _put(self, note: Note, before: Note | None) -> None:
        raise NotImplementedError

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            handle = os.open(self._lock, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise self._failed(f"can't be locked: {error.strerror}") from None
        try:
            with contextlib.suppress(ImportError):  # elsewhere than on POSIX two processes may write in turn
                import fcntl

                try:
                    fcntl.flock(handle, fcntl.LOCK_EX)
                except OSError as error:
                    raise self._failed(f"can't be locked: {error.strerror}") from None
            yield
        finally:
            os.close(handle)

    def _failed(self, why: str) -> LedgerError:
        return LedgerError(
            f"the anchor {self.name} {why}",
            code="anchor-failed",
            hint="nothing was answered; what was recorded before stays charged. Without the anchor nobody could tell "
            "an older copy of the ledger from the ledger: repair it, or let the steward take it out of the policy",
        )


class FileAnchor(Anchor):
    """A note in a file, which had better be where whoever can replace the ledger can't write."""

    def __init__(self, path: Path) -> None:
        # Where a link points to: the link may lead to a safe place, and is not to be replaced by a file.
        self._path = _resolved(path, f"the anchor {str(path)!r}")
        super().__init__(str(path))

    @property
    def _lock(self) -> Path:
        return Path(f"{self._path}.lock")

    def _get(self) -> str:
        try:
            return self._path.read_bytes().decode("ascii", errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise self._failed(f"can't be read: {error.strerror}") from None

    def _put(self, note: Note, before: Note | None) -> None:
        try:
            durable.write(self._path, f"{note}\n".encode())
        except OSError as error:
            raise self._failed(f"can't be written: {error.strerror}") from None


class CommandAnchor(Anchor):
    """A note that a program keeps. No shell is involved; the lock lies beside the ledger."""

    def __init__(self, command: Sequence[str], ledger: Path) -> None:
        super().__init__(f"command {command[0]}")
        self._command, self._ledger = tuple(command), ledger.absolute()

    @property
    def _lock(self) -> Path:
        # Looked up when it is needed: one ledger has one lock, by whichever name it is called by then.
        return Path(f"{_resolved(self._ledger, f'the ledger {str(self._ledger)!r}')}.anchor.lock")

    def _get(self) -> str:
        return self._run("read")

    def _put(self, note: Note, before: Note | None) -> None:
        self._run("write", *str(note).split(), *str(before or "").split())
        if self.read() != note:
            raise self._failed("was told a note, and says another")

    def _run(self, *arguments: str) -> str:
        import subprocess

        hidden = {name: value for name, value in os.environ.items() if name not in (VARIABLE, NEXT)}
        try:
            done = subprocess.run(
                [*self._command, *arguments],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=SECONDS,
                env=hidden,  # whoever keeps the note has no use for the ledger's key
                check=False,
                start_new_session=True,  # a terminal's Ctrl-C is not for whoever writes the note of what was paid
            )
        except subprocess.TimeoutExpired:
            raise self._failed(f"took more than {SECONDS:g} seconds to {arguments[0]}") from None
        except OSError as error:
            raise self._failed(f"can't be run: {error.strerror}") from None
        except ValueError:  # a NUL in the command
            raise self._failed("can't be run: it is no command") from None
        if done.returncode != 0:
            raise self._failed(f"ended with exit status {done.returncode} on {arguments[0]}")
        return done.stdout.decode("ascii", errors="replace")


def _resolved(path: Path, what: str) -> Path:
    try:
        return path.resolve()
    except (ValueError, RuntimeError, OSError):  # a NUL, or links in a circle
        raise LedgerError(
            f"{what} is not the name of a file", code="anchor-failed", hint="name another: [budget] in the policy"
        ) from None
