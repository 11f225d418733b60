"""Sections 4 to 7 of docs/numerics.md in exact rational arithmetic.

Reads what linear_dump prints: inputs and the results of every kernel target
that this machine runs. Written from the page, not from the code.
"""
import struct
import sys
from fractions import Fraction

from exact_arithmetic import (Comparison, add, div, exp, float_value, fma,
                              mul, quantize, round_half_even, sigmoid, situ,
                              sqrt, sub, tanh, to_f32)

ZERO, ONE = Fraction(0), Fraction(1)


def numbers(kind, text):
    raw = bytes.fromhex(text)
    return struct.unpack(f"<{len(raw) // struct.calcsize(kind)}{kind}", raw)


def floats(text):
    return [float_value(bits) for bits in numbers("I", text)]


def chunk_dot(w, x):
    """Section 4: chains over chunks of 64 columns, then a chain of sums."""
    acc = ZERO
    for c in range(0, len(w), 64):
        p = ZERO
        for a, b in zip(w[c:c + 64], x[c:c + 64]):
            p = fma(a, b, p)
        acc = add(acc, p)
    return acc


def int8_dot(q, x_bits, scale):
    """Section 5: exact sums over chunks of 128 columns."""
    acc = ZERO
    for c in range(0, len(q), 128):
        exponent, xs = quantize(x_bits[c:c + 128])
        total = sum(a * b for a, b in zip(q[c:c + 128], xs))
        acc = fma(to_f32(Fraction(total)), Fraction(2) ** exponent, acc)
    return mul(acc, scale)


def add_lanes(lanes):
    h = 16
    while h:
        for j in range(h):
            lanes[j] = add(lanes[j], lanes[j + h])
        h //= 2
    return lanes[0]


def lane_sum(values):
    lanes = [ZERO] * 32
    for i, v in enumerate(values):
        lanes[i % 32] = add(lanes[i % 32], v)
    return add_lanes(lanes)


def lane_dot(a, b):
    lanes = [ZERO] * 32
    for i, (v, w) in enumerate(zip(a, b)):
        lanes[i % 32] = fma(v, w, lanes[i % 32])
    return add_lanes(lanes)


def inverse_rms(x, eps):
    mean = div(lane_dot(x, x), Fraction(len(x)))
    return div(ONE, sqrt(add(mean, eps)))


def softmax(scores):
    """Section 7: (p, 1 / d), blocks of 256 positions."""
    largest = max(scores)
    p = [exp(sub(s, largest)) for s in scores]
    d = ZERO
    for block in range(0, len(p), 256):
        d = add(d, lane_sum(p[block:block + 256]))
    return p, div(ONE, d)


def weighted(p, inverse, rows, c):
    out = ZERO
    for block in range(0, len(p), 256):
        part = ZERO
        for weight, row in zip(p[block:block + 256], rows[block:block + 256]):
            part = fma(weight, row[c], part)
        out = add(out, part)
    return mul(out, inverse)


def model_chunks(w, x, _):
    w, x = floats(w), floats(x)
    n = len(x)
    return [chunk_dot(w[r:r + n], x) for r in range(0, len(w), n)]


def model_int8(q, x, scale):
    codes, x_bits = [int(v) for v in floats(q)], numbers("I", x)
    n = len(x_bits)
    return [int8_dot(codes[r * n:(r + 1) * n], x_bits, s)
            for r, s in enumerate(floats(scale))]


def model_exp(x):
    return [exp(v) for v in floats(x)]


def model_sigmoid(x):
    return [sigmoid(v) for v in floats(x)]


def silu(v):
    return mul(v, sigmoid(v))


def model_silu(x):
    return [silu(v) for v in floats(x)]


def model_situ(betas, gate, up):
    beta, linear_beta = floats(betas)
    if linear_beta:
        return [situ(g, u, beta, linear_beta)
                for g, u in zip(floats(gate), floats(up))]
    inverse = div(ONE, beta)
    return [mul(mul(mul(beta, tanh(mul(g, inverse))), sigmoid(g)), u)
            for g, u in zip(floats(gate), floats(up))]


def model_decay(constants, r, dt_bias):
    a, bound = floats(constants)
    return [exp(mul(bound, sigmoid(mul(a, add(v, dt)))))
            for v, dt in zip(floats(r), floats(dt_bias))]


def model_rms_norm(eps, x, w):
    x = floats(x)
    inverse = inverse_rms(x, floats(eps)[0])
    return [mul(mul(v, inverse), u) for v, u in zip(x, floats(w))]


def model_l2_norm(constants, x):
    (eps, c), x = floats(constants), floats(x)
    inverse = div(ONE, sqrt(add(lane_dot(x, x), eps)))
    return [mul(mul(v, inverse), c) for v in x]


def model_dot(a, b):
    return [lane_dot(floats(a), floats(b))]


def model_conv(taps, u):
    taps, u = floats(taps), floats(u)
    n = len(taps) // 4
    w, u = ([v[k * n:(k + 1) * n] for k in range(4)] for v in (taps, u))
    out = []
    for c in range(n):
        y = mul(w[0][c], u[3][c])
        for j in (1, 2, 3):
            y = fma(w[j][c], u[3 - j][c], y)
        out.append(silu(y))
    return out


def model_kda(beta, qkv, decay, state):
    (beta,), qkv, a, s = floats(beta), floats(qkv), floats(decay), floats(state)
    n = len(a)
    q, k, v = (qkv[i * n:(i + 1) * n] for i in range(3))
    out = []
    for d in range(n):
        p = ZERO
        for i in range(n):
            s[i * n + d] = mul(a[i], s[i * n + d])
            p = fma(k[i], s[i * n + d], p)
        u = mul(beta, sub(v[d], p))
        o = ZERO
        for i in range(n):
            s[i * n + d] = fma(k[i], u, s[i * n + d])
            o = fma(q[i], s[i * n + d], o)
        out.append(o)
    return out + s


def model_attention(constants, queries, keys):
    key_dim, value_dim, scale = floats(constants)
    key_dim, value_dim = int(key_dim), int(value_dim)
    split = lambda v: [v[i:i + key_dim] for i in range(0, len(v), key_dim)]
    keys, out = split(floats(keys)), []
    for query in split(floats(queries)):
        p, inverse = softmax([mul(chunk_dot(key, query), scale)
                              for key in keys])
        out += [weighted(p, inverse, keys, c) for c in range(value_dim)]
    return out


def model_residual(eps, nw, candidates):
    (eps,), nw, flat = floats(eps), floats(nw), floats(candidates)
    n = len(nw)
    rows = [flat[i:i + n] for i in range(0, len(flat), n)]
    p, inverse = softmax([mul(lane_dot(row, nw), inverse_rms(row, eps))
                          for row in rows])
    return [weighted(p, inverse, rows, c) for c in range(n)]


def check_quantize(fields, comparison):
    """quantize row scale codes: section 5, once per row of weights."""
    row = [float_value(bits << 16) for bits in numbers("H", fields[0])]
    scale = div(max(abs(w) for w in row), Fraction(127))
    comparison.same_float(numbers("I", fields[1])[0], scale, "scale")
    for w, q in zip(row, numbers("b", fields[2])):
        want = max(-127, min(127, round_half_even(div(w, scale))))
        comparison.same_integer(q, want, "code")


def check(kind, fields, comparison):
    """KIND inputs... [target result]...: targets are not hexadecimal."""
    model = globals()["model_" + kind]
    inputs = model.__code__.co_argcount
    want = model(*fields[:inputs])
    for target, result in zip(fields[inputs::2], fields[inputs + 1::2]):
        got = numbers("I", result)
        assert len(got) == len(want)
        for i, bits in enumerate(got):
            comparison.same_float(bits, want[i], f"{kind} {target} {i}")


def main():
    comparison = Comparison()
    for line in sys.stdin:
        # Split at single blanks: an input may be empty.
        kind, *fields = line.rstrip("\n").split(" ")
        if kind == "quantize":
            check_quantize(fields, comparison)
        else:
            check(kind, fields, comparison)
    return comparison.finish(at_least=3000)


if __name__ == "__main__":
    sys.exit(main())
