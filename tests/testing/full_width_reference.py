#!/usr/bin/env python3
"""Reference outputs of a model with released dimensions, in bounded memory.

    full_width_reference.py MODEL_DIR OUT.safetensors ID,ID,...

Runs the float64 reference over the ids at once and writes its trace: per layer
the inputs and outputs of attention and feed-forward and the routes, and the
logits. Large matrices stay in their files and are widened a block of rows at a
time; routed experts are kept for one layer, as float32, which holds every MXFP4
value exactly.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "reference"))
import k3_reference as k3  # noqa: E402
import numpy as np  # noqa: E402

# Matrices with more values are never widened whole. The operators that take a
# matrix as an array (router, kv_b_proj) stay below.
LARGE = 1 << 24
BLOCK_ROWS = 1024


class StoredMatrix:
    """A bfloat16 matrix of which only a block of rows is widened at a time."""

    def __init__(self, bits, dtype):
        self.bits = bits
        self.dtype = dtype

    def row_blocks(self):
        for begin in range(0, len(self.bits), BLOCK_ROWS):
            block = self.bits[begin:begin + BLOCK_ROWS]
            yield k3.bf16_to_float32(block).astype(self.dtype)


class StreamedK3(k3.K3):
    """The reference model with large weights left on disk."""

    def __init__(self, root):
        super().__init__(root, "float64")
        self._expert_layer = None

    def w(self, name):
        stored = self.ckpt.raw(name)
        if stored.size > LARGE:
            return StoredMatrix(stored, self.dtype)
        return super().w(name)

    def embed(self, ids):
        stored = self.ckpt.raw(self.PREFIX + "embed_tokens.weight")
        return k3.bf16_to_float32(stored[np.asarray(ids)]).astype(self.dtype)

    def lin(self, x, w):
        if not isinstance(w, StoredMatrix):
            return super().lin(x, w)
        blocks = [super(StreamedK3, self).lin(x, rows)
                  for rows in w.row_blocks()]
        return np.concatenate(blocks, axis=1)

    def expert(self, layer, expert):
        if layer != self._expert_layer:
            self._expert_layer = layer
            self._experts.clear()
        if expert not in self._experts:
            base = (f"{self.PREFIX}layers.{layer}.block_sparse_moe."
                    f"experts.{expert}.")
            self._experts[expert] = tuple(
                k3.mxfp4_dequant(self.ckpt.raw(base + n + ".weight_packed"),
                                 self.ckpt.raw(base + n + ".weight_scale"),
                                 np.float32)
                for n in ("w1", "w2", "w3"))
        return self._experts[expert]


def main():
    root, out, ids = sys.argv[1:]
    model = StreamedK3(root)
    trace = {}
    model.forward([int(i) for i in ids.split(",")], trace=trace)
    k3.write_safetensors(out, trace)
    print(f"smallest router margin {model.min_margin:.3e}, largest logit "
          f"{np.abs(trace['logits']).max():.3f}")


if __name__ == "__main__":
    main()
