"""How far off answers are, and how often their 95% intervals hold the truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.turns import spread


class Errors:
    """The relative errors of several answers to one query."""

    def __init__(self, truth: dict[str, Any]) -> None:
        self._truth = {
            name: dict(zip(map(tuple, truth["keys"]), v, strict=True)) for name, v in truth["values"].items()
        }
        self._off: dict[str, dict[tuple[str, ...], list[float]]] = {name: {} for name in self._truth}
        self._held = dict.fromkeys(self._truth, 0)
        self._of = dict.fromkeys(self._truth, 0)
        self._shown: list[int] = []

    @property
    def runs(self) -> int:
        return len(self._shown)

    def add(self, answer: dict[str, Any]) -> None:
        """One more answer. Keys that no row has (NULL, where the policy allows it) have no relative error."""
        self._shown.append(len(answer["keys"]))
        for name, known in self._truth.items():
            spans = answer["intervals"].get(name) or [None] * len(answer["keys"])
            for key, value, span in zip(map(tuple, answer["keys"]), answer["values"][name], spans, strict=True):
                true = known.get(key)
                if not true:
                    continue
                if value is not None:
                    self._off[name].setdefault(key, []).append(value / true - 1)
                if span is not None:
                    self._of[name] += 1
                    self._held[name] += span[0] <= true <= span[1]

    def columns(self) -> dict[str, dict[str, Any]]:
        """For each aggregate: the root mean square error, the noise and the bias in it (deviation and mean over runs),
        each the median over groups; where keys are private, over all that are shown. And how many intervals held."""
        return dict(self._columns())

    def _columns(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, off in self._off.items():
            said: dict[str, Any] = {
                "runs": self.runs,
                "cells": spread(self._shown)["median"],
                "of_cells": len(self._truth[name]),
                "held": self._held[name],
                "intervals": self._of[name],
            }
            whole = len(off) == len(self._truth[name]) and all(len(one) == self.runs for one in off.values())
            groups = list(off.values()) if whole else [[e for one in off.values() for e in one]]
            if groups and groups[0]:
                found = np.array(groups)
                said["rmse"] = float(np.median(np.sqrt((found**2).mean(axis=1))))
                said["noise"] = float(np.median(found.std(axis=1)))
                said["bias"] = float(np.median(found.mean(axis=1)))
            yield name, said
