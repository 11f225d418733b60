#!/usr/bin/env python3
"""Build small checkpoints of unusual shapes, each with reference outputs.

    make_golden_models.py OUT_DIR

Every model gets a directory with a golden.safetensors like golden/tiny-a's.
The prompt seeds were searched (make_golden.py model --search 12): their greedy
ids and routes are far from ties, so that a float32 engine must reproduce them.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "reference"))
import make_golden  # noqa: E402
import make_tiny  # noqa: E402

WEIGHT_SEED = 7
PROMPT_TOKENS = 20
GREEDY_TOKENS = 16

# name: (prompt seed, parameters of make_tiny.py)
MODELS = {
    "more-heads-than-dims": (5, [
        "linear_num_heads=12", "linear_head_dim=8", "num_attention_heads=9",
        "v_head_dim=24", "kv_lora_rank=40", "num_hidden_layers=6",
        "full_attn_layers=[4,6]"]),
    "two-dense-layers": (7, [
        "first_k_dense_replace=2", "num_hidden_layers=7",
        "full_attn_layers=[1,4,7]", "attn_res_block_size=3",
        "rms_norm_eps=1e-4"]),
    "ragged-latent": (9, [
        "routed_expert_hidden_size=96", "moe_intermediate_size=288",
        "hidden_size=80", "intermediate_size=72", "num_hidden_layers=5",
        "full_attn_layers=[2,5]", "num_experts=40", "num_experts_per_token=6",
        "num_shared_experts=1", "routed_scaling_factor=2.5",
        "gate_lower_bound=-3.0", "activation_situ_beta=3.0",
        "activation_situ_linear_beta=16.0", "linear_head_dim=24"]),
}


def main():
    out_dir = sys.argv[1]
    for name, (prompt_seed, pairs) in MODELS.items():
        root = os.path.join(out_dir, name)
        parameters = make_tiny.parameters(pairs)
        make_tiny.build(root, parameters, WEIGHT_SEED)
        make_tiny.build_tokenizer(root, parameters["vocab_size"],
                                  parameters["reserved_tokens"])
        make_golden.model_golden(root, PROMPT_TOKENS, GREEDY_TOKENS,
                                 prompt_seed, 0)


if __name__ == "__main__":
    main()
