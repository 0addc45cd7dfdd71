"""A gate that many may pass at once, and that one can close behind all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class Gate:
    """Many are inside at the same time, or one is alone. Nobody inside may ask to be alone."""

    def __init__(self) -> None:
        self._moved = Condition()
        self._inside = 0
        self._closed = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Be inside; wait while somebody is alone."""
        with self._moved:
            self._moved.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._moved:
                self._inside -= 1
                self._moved.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be alone: nobody else comes in, and whoever is inside has left."""
        with self._moved:
            self._moved.wait_for(lambda: not self._closed)
            self._closed = True
            try:
                self._moved.wait_for(lambda: not self._inside)
            except BaseException:
                self._closed = False
                self._moved.notify_all()
                raise
        try:
            yield
        finally:
            with self._moved:
                self._closed = False
                self._moved.notify_all()
