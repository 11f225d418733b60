"""Sections 2, 3 and 8 of docs/numerics.md in exact rational arithmetic.

Reads what expert_dump prints: released bytes, records, tokens, and the results
of every kernel target that this machine runs. Written from the page, not from
the code.
"""
import struct
import sys
from fractions import Fraction

from exact_arithmetic import (INF, Comparison, float_bits, float_value, fma,
                              quantize, round_half_even, situ, to_f32)

TWICE = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]


def numbers(kind, text):
    raw = bytes.fromhex(text)
    return struct.unpack(f"<{len(raw) // struct.calcsize(kind)}{kind}", raw)


def row_product(codes, scales, groups):
    """One row: codes[g][32] and scales[g] with quantised groups (e, X)."""
    acc = Fraction(0)
    for row, scale, (exponent, xs) in zip(codes, scales, groups):
        total = sum(TWICE[c] * x for c, x in zip(row, xs))
        assert -(2**31) <= total < 2**31
        field = min(max(scale + exponent - 1, 0), 255)
        if acc == INF or field == 255:
            acc = INF
            continue
        factor = Fraction(0) if field == 0 else Fraction(2) ** (field - 127)
        acc = fma(to_f32(Fraction(total)), factor, acc)
    return acc


def released_row(packed, scales, cols, r):
    nibbles = []
    for byte in packed[r * cols // 2:(r + 1) * cols // 2]:
        nibbles += [byte & 15, byte >> 4]
    groups = cols // 32
    return ([nibbles[32 * g:32 * g + 32] for g in range(groups)],
            scales[r * groups:(r + 1) * groups])


def tile_row(matrix, rows, cols, r):
    """Row r out of the tile order of section 3."""
    block, tile, lane = r // 256, r % 256 // 32, r % 32
    block_rows = min(256, rows - 256 * block)
    tile_rows = min(32, block_rows - 32 * tile)
    codes, scales = [], []
    for chunk in range((cols + 63) // 64):
        groups = min(2, cols // 32 - 2 * chunk)
        at = (256 * block * (cols // 32) * 17 + block_rows * chunk * 34 +
              32 * tile * groups * 17)
        for g in range(groups):
            scales.append(matrix[at + g * tile_rows + lane])
            nibbles = []
            for octet in range(4 * g, 4 * g + 4):
                dword = at + groups * tile_rows + (octet * tile_rows + lane) * 4
                for byte in matrix[dword:dword + 4]:
                    nibbles += [byte & 15, byte >> 4]
            codes.append(nibbles)
    return codes, scales


def quantized(x_bits):
    return [quantize(x_bits[i:i + 32]) for i in range(0, len(x_bits), 32)]


def check_product(fields, comparison):
    """product ROWS COLS packed scales x [target y]..."""
    rows, cols = int(fields[0]), int(fields[1])
    packed, scales = bytes.fromhex(fields[2]), bytes.fromhex(fields[3])
    groups = quantized(numbers("I", fields[4]))
    want = [row_product(*released_row(packed, scales, cols, r), groups)
            for r in range(rows)]
    for target, y in zip(fields[5::2], fields[6::2]):
        for r, bits in enumerate(numbers("I", y)):
            comparison.same_float(bits, want[r], f"product {target} row {r}")


def slice_terms(record, at, latent, n, groups, weight):
    """The fixed-point terms [latent] of the slice at `at` with n columns."""
    part = n * latent // 32 * 17
    gate, up, down = (record[at + k * part:at + (k + 1) * part]
                      for k in range(3))
    h = [situ(row_product(*tile_row(gate, n, latent, r), groups),
              row_product(*tile_row(up, n, latent, r), groups))
         for r in range(n)]
    h_groups = quantized([float_bits(v) for v in h])
    terms = []
    for r in range(latent):
        t = weight * row_product(*tile_row(down, latent, n, r), h_groups)
        assert abs(t) < 2**15
        terms.append(round_half_even(t * 2**40))
    return terms


def check_expert(fields, comparison):
    """expert L F weight x record [target sums]..."""
    latent, inner = int(fields[0]), int(fields[1])
    weight = float_value(numbers("I", fields[2])[0])
    groups = quantized(numbers("I", fields[3]))
    record = bytes.fromhex(fields[4])
    assert len(record) == 51 * inner * latent // 32
    total = [0] * latent
    for s in range((inner + 255) // 256):
        n = min(256, inner - 256 * s)
        terms = slice_terms(record, 408 * latent * s, latent, n, groups, weight)
        total = [a + b for a, b in zip(total, terms)]
    for target, sums in zip(fields[5::2], fields[6::2]):
        for r, got in enumerate(numbers("q", sums)):
            comparison.same_integer(got, total[r], f"expert {target} row {r}")


def main():
    comparison = Comparison()
    checks = {"product": check_product, "expert": check_expert}
    for line in sys.stdin:
        kind, *fields = line.split()
        checks[kind](fields, comparison)
    return comparison.finish(at_least=400)


if __name__ == "__main__":
    sys.exit(main())
