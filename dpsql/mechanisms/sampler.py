"""Exact integer noise, vectorised, from the operating system's CSPRNG. There is no seed.

A uniform is an interval [k, k+1)/2^bits of random bits. Its outcome is computed in float64 together with a bound on
everything that may be wrong with it; where that leaves one integer, the lane is settled. The few other lanes are
looked at again in long double (where a scale is so large that float64 is too coarse), and if that isn't enough, bits
are appended to the same interval (a fresh draw would favour outcomes that settle early) and `decimal` settles it.

Integers of any size as arrays, and noise added to them without wrapping around.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.floating[Any]]
Words = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]

# Past this scale int64 could overflow; up to it, that needs a tail of probability e^-8191 (and then raises).
LARGEST_SCALE = Fraction(2**50)

# Nothing is buffered between calls, so that a forked process can't repeat its parent's noise.
_random_bytes: Callable[[int], bytes] = os.urandom

_CHUNK = 2**15  # lanes at a time: the temporaries of a chunk stay in the cache, and memory stays bounded

# Theorem SAMPLE-1, the float error bounds, in units of the float type's eps (derived in THEORY.md; tests measure
# numpy's part of them):
_ARGUMENT_ERROR = 1.0  # absolute, of ln u: a 64-bit word rounded to a float (half an eps)
_LOG_ERROR = 8.0  # relative, of scale·ln u: 4 ulp for log; scale, product, sum and difference rounded
_TRIG_ERROR = 16.0  # absolute, of cos and sin of 2πu: 4 ulp; u, 2π and the products rounded
_TAU_REST = 2.4492935982947064e-16  # 2π − math.tau


def require_scale(scale: Fraction) -> None:
    """Raises unless noise of this scale can be drawn, so that it fails before any data is read."""
    if scale < 0:
        raise ValueError("the scale of noise can't be negative")
    if scale > LARGEST_SCALE:
        raise OverflowError("noise of a scale above 2^50 may not fit into 64-bit integers; use a coarser grid")


def geometric(scale: Fraction, n: int) -> Ints:
    """n independent draws with Pr[z] = (1 − a)·a^z for z ≥ 0, exactly, where a = e^(−1/scale)."""
    bits = _bits(scale)
    return _chunked(scale, n, lambda m: _geometric(scale, _words(m, bits), bits))


def discrete_laplace(scale: Fraction, n: int) -> Ints:
    """n independent draws with Pr[z] = (1 − a)/(1 + a)·a^|z|, exactly, where a = e^(−1/scale)."""
    bits = _bits(scale)

    # Theorem SAMPLE-1(b). The difference of two independent geometric variables.
    def chunk(m: int) -> Ints:
        both = _geometric(scale, _words(2 * m, bits), bits)
        return both[:m] - both[m:]

    return _chunked(scale, n, chunk)


def rounded_normal(sigma: Fraction, n: int) -> Ints:
    """n independent draws of a true N(0, sigma²), each rounded to the nearest integer, exactly."""
    bits = _bits(sigma)

    def chunk(m: int) -> Ints:
        pairs = (m + 1) // 2
        return _normal(sigma, _words(pairs, bits), _words(pairs, bits), bits)[:m]

    return _chunked(sigma, n, chunk)


def _bits(scale: Fraction) -> int:
    # An interval straddles an integer with probability about scale·2^-bits·(a few), and random bits are the bottleneck.
    return 32 if scale <= 2**12 else 64


def _chunked(scale: Fraction, n: int, chunk: Callable[[int], Ints]) -> Ints:
    require_scale(scale)
    out = np.zeros(n, dtype=np.int64)
    if scale > 0:
        for start in range(0, n, _CHUNK):
            m = min(_CHUNK, n - start)
            out[start : start + m] = chunk(m)
    return out


def _words(n: int, bits: int) -> Words:
    """n independent uniform words of 32 or 64 bits."""
    if bits == 32:
        return np.frombuffer(_random_bytes(4 * n), dtype=np.uint32)
    return np.frombuffer(_random_bytes(8 * n), dtype=np.uint64)


def _more(k: int) -> int:
    """The word with 64 random bits appended: a uniformly chosen part of the same interval."""
    return k << 64 | int.from_bytes(_random_bytes(8), "big")


def _geometric(scale: Fraction, words: Words, bits: int) -> Ints:
    """⌊−scale·ln U⌋ for each word's uniform U in [k, k+1)/2^bits."""
    z, settled = _geometric_in(np.float64, scale, words, bits)
    if len(rest := np.flatnonzero(~settled)):
        z[rest], settled = _geometric_in(np.longdouble, scale, words[rest], bits)
        for i in rest[~settled]:
            z[i] = _geometric_in_decimal(scale, int(words[i]), bits)
    return z


def _geometric_in(real: type[np.floating[Any]], scale: Fraction, words: Words, bits: int) -> tuple[Ints, Bools]:
    """The outcomes and which of them are certain: those that hold on the whole interval."""
    s, eps = _nearest(real, scale), _eps(real)
    with np.errstate(divide="ignore", invalid="ignore"):  # k = 0 gives inf and nan, which compare as unsettled
        u = words.astype(real)
        u *= 2.0**-bits
        value = np.log(u)
        value *= -s
        # Theorem SAMPLE-1. −ln U is within 2^-bits/u of −ln u, plus the float errors named above.
        error = np.divide(s * 2.0**-bits, u, out=u)
        error += s * (_ARGUMENT_ERROR * eps)
        error += value * (_LOG_ERROR * eps)
        value -= error
        error *= 2.0
        error += value
        z = np.floor(error, out=error)  # the upper end's floor
        settled = value >= z
        settled |= z == 0  # the lower end can't be below 0
        return z.astype(np.int64), settled


def _nearest(real: type[np.floating[Any]], x: Fraction) -> np.floating[Any]:
    """x as a float, to half an eps: long double has no conversion from a fraction, so it takes two doubles."""
    head = float(x)
    return real(head) + real(float(x - Fraction(head)))


def _eps(real: type[np.floating[Any]]) -> float:
    # Long double has 64, 113 or (as float64) 53 bits; the error bounds are needed, and trusted, to 64 only.
    return max(float(np.finfo(real).eps), 2.0**-63)


def _geometric_in_decimal(scale: Fraction, k: int, bits: int) -> int:
    while True:
        k, bits = _more(k), bits + 64
        if (outcome := _geometric_at(scale, k, bits)) is not None:
            return outcome


def _geometric_at(scale: Fraction, k: int, bits: int) -> int | None:
    """The outcome on the whole interval of the word k, None if it may have several."""
    if k == 0:
        return None
    with localcontext(_context(bits)) as context:
        # From the bounds on in exact integers: ⌊scale·E⌋ for E a multiple of 10^-prec.
        unit: int = 10**context.prec
        lowest, highest = (
            scale.numerator * int(end.scaleb(context.prec)) // (scale.denominator * unit)
            for end in _exponential(k, bits)
        )
    return lowest if lowest == highest else None


def _context(bits: int) -> Context:
    # 2^-bits > 10^(-bits/3): rounding errors are below 10^-20 of the interval's width.
    return Context(prec=25 + bits // 3)


def _exponential(k: int, bits: int) -> tuple[Decimal, Decimal]:
    """Bounds on −ln U over the interval of the word k > 0, at the precision of the current context."""
    whole, width = Decimal(2) ** bits, Decimal(2) ** -bits
    # Theorem SAMPLE-1. Decimal's ln is correctly rounded; its rounding and the quotient's are far below 2^-bits.
    low = -((k + 1) / whole).ln() - width
    high = -(k / whole).ln() + width
    return max(low, Decimal(0)), high


def _normal(sigma: Fraction, radii: Words, angles: Words, bits: int) -> Ints:
    """Rounded sigma·√(−2 ln U)·cos 2πV for each pair of words, then the same with sin."""
    x, y, settled = _normal_in(np.float64, sigma, radii, angles, bits)
    if len(rest := np.flatnonzero(~settled)):
        x[rest], y[rest], settled = _normal_in(np.longdouble, sigma, radii[rest], angles[rest], bits)
        for i in rest[~settled]:
            x[i], y[i] = _normal_in_decimal(sigma, int(radii[i]), int(angles[i]), bits)
    return np.concatenate((x, y))


def _normal_in(
    real: type[np.floating[Any]], sigma: Fraction, radii: Words, angles: Words, bits: int
) -> tuple[Ints, Ints, Bools]:
    s, eps = _nearest(real, sigma), _eps(real)
    turn_error = 7 * 2.0**-bits + _TRIG_ERROR * eps  # of cos and sin: 2π·2^-bits from the interval of V, and floats
    with np.errstate(divide="ignore", invalid="ignore"):
        u = radii.astype(real)
        u *= 2.0**-bits
        exponential = np.log(u)
        exponential *= -1.0
        error = np.divide(2.0**-bits, u, out=u)
        error += _ARGUMENT_ERROR * eps
        error += exponential * (_LOG_ERROR * eps)
        radius = np.sqrt(exponential * 2.0, out=exponential)
        # Theorem SAMPLE-1(c). |√a − √b| ≤ |a − b|/√a, whatever b ≥ 0 is.
        error /= radius
        error *= s * (2.0 * (1.0 + turn_error))
        radius *= s
        error += radius * turn_error
        angle = angles.astype(real)
        angle *= 2.0**-bits
        angle *= real(math.tau) + real(_TAU_REST)
        x, x_settled = _round(radius * np.cos(angle), error)
        y, y_settled = _round(radius * np.sin(angle), error)
        return x, y, x_settled & y_settled


def _round(value: Reals, error: Reals) -> tuple[Ints, Bools]:
    value += 0.5
    z = np.floor(value + error)
    value -= error
    return z.astype(np.int64), value >= z


def _normal_in_decimal(sigma: Fraction, k: int, j: int, bits: int) -> tuple[int, int]:
    # Both outcomes are functions of the same two uniforms, so they are refined together.
    while True:
        k, j, bits = _more(k), _more(j), bits + 64
        if (outcomes := _normal_at(sigma, k, j, bits)) is not None:
            return outcomes


def _normal_at(sigma: Fraction, k: int, j: int, bits: int) -> tuple[int, int] | None:
    """Both outcomes on the whole box of the words k and j, None if one of them may have several."""
    if k == 0:
        return None
    with localcontext(_context(bits)):
        low, high = ((2 * end).sqrt() for end in _exponential(k, bits))
        # Twice what the intervals need (half their widths, and π·2^-bits): the rest is for rounding errors.
        spread, turn_error = high - low, 7 * Decimal(2) ** -bits
        scale = Decimal(sigma.numerator) / sigma.denominator
        error = scale * (spread * (1 + turn_error) + high * turn_error)
        middles = [scale * (low + high) / 2 * turn + Decimal("0.5") for turn in _cos_sin(j, bits)]
        x, y = (math.floor(middle + error) for middle in middles)
        certain = [x, y] == [math.floor(middle - error) for middle in middles]
    return (x, y) if certain else None


def _cos_sin(j: int, bits: int) -> tuple[Decimal, Decimal]:
    """cos and sin of 2π times the middle of [j, j+1)/2^bits."""
    quarter, rest = divmod(4 * (2 * j + 1), 2 ** (bits + 1))
    angle = _pi(bits) / 2 * rest / 2 ** (bits + 1)
    parts = [Decimal(0), Decimal(0)]
    term, i = Decimal(1), 0
    while term >= Decimal(2) ** -(bits + 20):  # Taylor with angle < π/2: the remainder is below the next term
        parts[i % 2] += term if i % 4 < 2 else -term
        i += 1
        term *= angle / i
    cos, sin = parts
    return ((cos, sin), (-sin, cos), (-cos, -sin), (sin, -cos))[quarter]


@lru_cache(maxsize=16)
def _pi(bits: int) -> Decimal:
    """π, by Machin's formula, to the precision of _context(bits)."""
    one: int = 10 ** (_context(bits).prec + 10)

    def arctan_of_inverse(x: int) -> int:
        total, power, i = 0, one // x, 1
        while power:
            total += power // i if i % 4 == 1 else -(power // i)
            power, i = power // (x * x), i + 2
        return total

    return Decimal(4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))) / one


Scores = npt.NDArray[np.int64] | npt.NDArray[np.object_]

_SAFE = 2**61  # numbers and noise below this add up within 64 bits


def integers(values: Sequence[int] | npt.NDArray[Any], what: str) -> Scores:
    """A list of integers as an array: of 64 bits, or of Python's own where that is too narrow."""
    numbers = np.asarray(values)
    if numbers.dtype == np.float64 and not isinstance(values, np.ndarray):
        # Which numpy also makes of integers of both signs where one needs all 64 bits.
        numbers = np.asarray(values, dtype=object)
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(f"a list of at least one of the {what} is needed")
    wrong = TypeError(f"{what} are integers: put them on a grid, and the sensitivity with them")
    if numbers.dtype == np.uint64 or numbers.dtype == object:
        try:
            return np.array([index(n) for n in numbers], dtype=object)
        except TypeError:
            raise wrong from None
    if not np.issubdtype(numbers.dtype, np.integer):
        raise wrong
    return numbers.astype(np.int64)


def added(numbers: Scores, noise: npt.NDArray[np.int64]) -> Scores:
    """Their sums, exactly."""
    ends = (int(end) for part in (numbers, noise) if len(part) for end in (part.max(), part.min()))
    if numbers.dtype == object or max(map(abs, ends), default=0) >= _SAFE:
        return np.asarray(numbers.astype(object) + noise.astype(object))
    return np.asarray(numbers + noise)
