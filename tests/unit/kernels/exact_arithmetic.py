"""Exact rational arithmetic with the roundings of docs/numerics.md section 1.

Written from that page, not from the code. A value is a Fraction, or INF for
whatever is not finite.
"""
import struct
from fractions import Fraction
from math import isqrt

INF = "inf"


def float_value(bits):
    """The value of an f32 bit pattern, INF if it is not finite."""
    exponent, mantissa = bits >> 23 & 255, bits & 0x7FFFFF
    if exponent == 255:
        return INF
    sign = -1 if bits >> 31 else 1
    if exponent == 0:
        return sign * Fraction(mantissa, 2**149)
    return sign * Fraction(mantissa + 2**23) * Fraction(2) ** (exponent - 150)


def float_bits(value):
    """The pattern of a Fraction that is an f32 value."""
    return struct.unpack("<I", struct.pack("<f", float(value)))[0]


def round_half_even(q):
    """rhe: the nearest integer, ties to even."""
    floor = q.numerator // q.denominator
    rest = q - floor
    half = Fraction(1, 2)
    return floor + (rest > half or (rest == half and floor & 1))


def to_f32(q):
    """The nearest f32 value, subnormals kept."""
    if q == INF or q == 0:
        return q
    size = abs(q)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, -126) - 23)
    value = round_half_even(size / step) * step
    if value >= Fraction(2) ** 128:
        return INF
    return value if q > 0 else -value


def add(a, b):
    return INF if INF in (a, b) else to_f32(a + b)


def sub(a, b):
    return INF if INF in (a, b) else to_f32(a - b)


def mul(a, b):
    return INF if INF in (a, b) else to_f32(a * b)


def div(a, b):
    return INF if INF in (a, b) else to_f32(a / b)


def fma(a, b, c):
    return INF if INF in (a, b, c) else to_f32(a * b + c)


def sqrt(a):
    if a == INF:
        return INF
    bits = 200
    root = isqrt((a * 4**bits).numerator // (a * 4**bits).denominator)
    q = Fraction(root, 2**bits)
    return to_f32(q if q * q == a else q + Fraction(1, 2 ** (bits + 40)))


def hexf(text):
    """A C hexadecimal float literal."""
    return Fraction(*float.fromhex(text).as_integer_ratio())


def quantize(x_bits):
    """Section 2: (e, X) of one group of f32 patterns."""
    largest = max(bits & 0x7FFFFFFF for bits in x_bits)
    assert largest < 0x7F800000
    exponent = max((largest + 0x555555) >> 23, 33) - 149
    xs = [
        round_half_even(to_f32(float_value(bits) * Fraction(2) ** -exponent))
        for bits in x_bits
    ]
    assert all(abs(x) <= 5592405 for x in xs)
    return exponent, xs


def exp(x):
    """Section 6."""
    x = max(min(x, Fraction(88)), Fraction(-87))
    magic = Fraction(12582912)
    t = fma(x, hexf("0x1.715476p+0"), magic)
    n = sub(t, magic)
    r = fma(n, -hexf("0x1.62e430p-1"), x)
    r = fma(n, hexf("0x1.05c610p-29"), r)
    q = hexf("0x1.6a264ap-10")
    for c in ("0x1.123988p-7", "0x1.5558ecp-5", "0x1.555492p-3",
              "0x1.fffffcp-2"):
        q = fma(q, r, hexf(c))
    p = add(fma(q, mul(r, r), r), Fraction(1))
    return to_f32(p * Fraction(2) ** int(n))


def sigmoid(x):
    e = exp(-abs(x))
    return div(e if x < 0 else Fraction(1), add(Fraction(1), e))


def tanh(x):
    a = abs(x)
    z = mul(a, a)
    p = -hexf("0x1.762d90p-8")
    for c in ("0x1.5239d6p-6", "-0x1.b83fcap-5", "0x1.110748p-3",
              "-0x1.555534p-2"):
        p = fma(p, z, hexf(c))
    if a < Fraction(5, 8):
        y = fma(mul(a, z), p, a)
    else:
        e = exp(mul(a, Fraction(-2)))
        y = div(sub(Fraction(1), e), add(Fraction(1), e))
    return -y if x < 0 else y


def situ(gate, up, beta=Fraction(4), linear_beta=Fraction(25)):
    ib, il = div(Fraction(1), beta), div(Fraction(1), linear_beta)
    a = mul(mul(beta, tanh(mul(gate, ib))), sigmoid(gate))
    return mul(a, mul(linear_beta, tanh(mul(up, il))))


class Comparison:
    """Counts values and differences; the test fails on any difference."""

    def __init__(self):
        self.values = 0
        self.not_finite = 0
        self.differences = 0

    def same_float(self, bits, want, where):
        got = float_value(bits)
        self.not_finite += want == INF
        self._count(got == want, got, want, where)

    def same_integer(self, got, want, where):
        self._count(got == want, got, want, where)

    def _count(self, equal, got, want, where):
        self.values += 1
        if not equal:
            self.differences += 1
            if self.differences <= 10:
                print(f"{where}: {got}, want {want}")

    def finish(self, at_least):
        """Prints the counts; the exit status of the test."""
        print(f"{self.values} values, {self.not_finite} of them not finite, "
              f"{self.differences} differences")
        return 0 if self.differences == 0 and self.values >= at_least else 1
