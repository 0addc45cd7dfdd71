"""How many exact draws a second each sampler makes: python benchmarks/noise.py"""

from __future__ import annotations

import time
from fractions import Fraction

from dpsql.mechanisms import sampler

N = 10**6
SAMPLERS = (sampler.geometric, sampler.discrete_laplace, sampler.rounded_normal)
SCALES = (Fraction(1), Fraction(1000), Fraction(2**20), Fraction(2**30), Fraction(2**40))


def main() -> None:
    print("million draws a second, best of 3".ljust(36), *(f"scale {float(scale):<8.2g}" for scale in SCALES))
    for draw in SAMPLERS:
        speeds = []
        for scale in SCALES:
            seconds = []
            for _ in range(3):
                start = time.perf_counter()
                draw(scale, N)
                seconds.append(time.perf_counter() - start)
            speeds.append(N / min(seconds) / 1e6)
        print(draw.__name__.ljust(36), *(f"{speed:<14.1f}" for speed in speeds))


if __name__ == "__main__":
    main()
