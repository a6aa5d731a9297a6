"""What a traceback's frames say about the tensor that was wanted.

A frame is a place (``File ".../adamw.py", line 606, in _multi_tensor_adamw``) or its code. The
innermost frame that means something decides how likely each kind is; outer frames tell the phase.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from memlint.source.record import Record

_SPECIFIC = 0.004  # what a kind still gets that the frames speak against


class Evidence(Record):
    """kinds: how likely each kind is by the frames, at most 1; frame: the one that says so.

    phase: as far as the frames tell. names: words that the tensor's name has, by the frame.
    """

    kinds: Mapping[str, float] = {}
    frame: str = ""
    phase: str = ""
    names: tuple[str, ...] = ()

    def weight(self, kind: str) -> float:
        """How well a kind goes with the frames; 1 for each where there are none."""
        if not self.kinds:
            return 1.0
        return self.kinds.get(kind, _SPECIFIC)


_LOSS = {"log_softmax": 1.0, "logits_fp32": 0.45, "logits": 0.12, "logits_gradient": 0.05}
_RULES: tuple[tuple[str, Mapping[str, float]], ...] = (
    # Saving and merging come first: what they call looks like loading and gathering.
    (r"Failed to clone\(\) tensor", {"state_dict_copy": 1.0}),
    (
        r"merge_and_unload|_?merge_lora|merge_adapter|get_delta_weight|unmerge|\bdelta_weight\b"
        r"|\.merge\(|in _?merge",
        {"merged_weight": 1.0, "dequantized_weight": 0.08, "weights": 0.05},
    ),
    (
        r"nested_concat|torch_pad_and_concat|pad_across_processes|gather_for_metrics|nested_gather"
        r"|_tensor_gather|nested_xla|preds_host|all_preds|preds if preds|nested_detach"
        r"|preprocess_logits_for_metrics|EvalLoopContainer",
        {"eval_logits": 1.0, "logits_fp32": 0.08, "logits": 0.05},
    ),
    (
        r"log_softmax|log_probs_from_logits|logprobs?_from_logits|selective_log_softmax"
        r"|_per_token_logps|get_batch_logps|logsumexp|compute_log_probs|entropy_from_logits",
        {"log_softmax": 1.0, "logits_fp32": 0.5, "logits": 0.3, "logits_gradient": 0.05},
    ),
    (
        r"convert_to_fp32|ConvertOutputsToFp32|logits\.float\(\)|logits\.to\(torch\.float|upcast"
        r"|logits\s*=\s*logits\.float|_convert_to_fp32|\.float\(\)\.contiguous",
        {"logits_fp32": 1.0, "logits": 0.1, "eval_logits": 0.1, "log_softmax": 0.05},
    ),
    (
        r"shift_logits|shift_lm_logits|lm_logits\[|logits\[\.\.\.|logits\[:, :-1",
        {"logits_fp32": 1.0, "logits": 0.6, "log_softmax": 0.15},
    ),
    (
        r"cross_entropy|CrossEntropyLoss|ForCausalLMLoss|fixed_cross_entropy|loss_fct\("
        r"|self\.loss_function|label_smoother|nll_loss|vocab_parallel_cross",
        _LOSS,
    ),
    (
        r"lm_head\(|embed_out\(|compute_logits|output_layer\(|self\.output\(h|\.lm_head|lm_logits ="
        r"|final_logits_bias|logits = self\.",
        {"logits": 1.0, "logits_fp32": 0.4, "dequantized_weight": 0.02, "weights": 0.02},
    ),
    (
        r"past_key_value|DynamicCache|cache_utils|StaticCache|kv_cache|key_cache|value_cache"
        r"|layer_past|torch\.cat\(\[(?:past|self\.key)|allocate_gpu_cache|past_key\b",
        {"kv_cache": 1.0, "activation": 0.1},
    ),
    (
        r"softmax\(|attn_weights|attention_scores|attention_probs|baddbmm|eager_attention_forward"
        r"|_attn\(|matmul\(q|bmm\(q|position_bias|alibi\b.{0,200}\+|_scaled_dot_product_attention_math",
        {"attention_scores": 1.0, "activation": 0.03, "log_softmax": 0.02},
    ),
    (
        r"causal_mask|_update_causal|_make_causal|expanded_attn_mask|attention_mask\.to|_expand_mask"
        r"|create_causal|sdpa_mask|tril\(|triu\(",
        {"attention_scores": 0.6, "other": 1.0, "activation": 0.1},
    ),
    (
        r"MatMul4Bit|MatMul8bit|matmul_4bit|dequantize|dequant|Params4bit.{0,200}t\(\)|quantize_blockwise"
        r"|autograd/_functions|_functions\.py",
        {
            "dequantized_weight": 1.0,
            "activation": 0.25,
            "mlp_activation": 0.35,
            "weights": 0.1,
            "logits": 0.05,
        },
    ),
    (
        r"ref_model|reference_model|create_reference|deepcopy\(",
        {"reference_model": 1.0, "weights": 0.4, "logits": 0.05},
    ),
    (
        r"gate_proj|up_proj|act_fn|c_fc|fc1\(|dense_h_to_4h|swiglu|\bself\.act\(|silu|gelu|SwiGLU"
        r"|self\.w1\(|self\.w3\(|feed_forward|experts|intermediate_act|\bwi_[01]|F\.relu",
        {"mlp_activation": 1.0, "activation": 0.15, "dequantized_weight": 0.04},
    ),
    (
        r"self\.mlp\(|down_proj|c_proj|fc2\(|4h_to_h|LlamaMLP|\.mlp\b|in mlp",
        {"mlp_activation": 1.0, "activation": 0.5, "dequantized_weight": 0.04},
    ),
    (
        r"repeat_kv|rotate_half|apply_rotary|rotary|q_proj|k_proj|v_proj|o_proj|query_key_value|c_attn"
        r"|scaled_dot_product|flash_attn|self_attn|xformers|unpad_input|index_first_axis|qkv",
        {
            "activation": 1.0,
            "attention_scores": 0.12,
            "mlp_activation": 0.05,
            "dequantized_weight": 0.03,
        },
    ),
    (
        r"lora_[AB]|lora_dropout|dropout\(|tuners/lora|input_layernorm|rms_norm|RMSNorm|LayerNorm"
        r"|layer_norm|hidden_states\.to\(torch|variance|residual \+|hidden_states = hidden",
        {"activation": 1.0, "mlp_activation": 0.5, "dequantized_weight": 0.05},
    ),
    (
        r"embed_tokens|inputs_embeds|F\.embedding|torch\.embedding|wte\(",
        {"activation": 1.0, "weights": 0.1, "weight_gradient": 0.05},
    ),
    (
        r"exp_avg_sq_sqrt|_foreach_sqrt|_foreach_add|_foreach_div|_foreach_mul|_foreach_sub|denom"
        r"|addcdiv|_multi_tensor_|_single_tensor_|multi_tensor_apply|_foreach|update\s*=|newton"
        r"|adam_compute|_approx_sq_grad|step_impl",
        {"optimizer_temporary": 1.0, "optimizer_state": 0.2, "other": 0.02},
    ),
    (
        r"exp_avg|_init_group|zeros_like\(p|init_state|initialize_optimizer_states|get_state_buffer"
        r"|state\[[\"']|single_partition_of_fp32|fp32_partitioned|fp32_groups|master_param|main_param"
        r"|_create_fp32_partitions|stage3\.py.*_optimizer_step|_optimizer_step",
        {"optimizer_state": 1.0, "optimizer_temporary": 0.35, "weights": 0.02},
    ),
    (
        r"_flatten_dense|flatten_dense_tensors|flatten_copy|get_flat_partition|flatten\(",
        {
            "optimizer_state": 0.8,
            "weights": 0.6,
            "gradient_bucket": 0.6,
            "weight_gradient": 0.2,
            "gathered_parameter": 0.1,
        },
    ),
    (
        r"clip_grad|_foreach_norm|unscale_|get_global_norm|complete_grad_norm",
        {"weight_gradient": 0.5, "optimizer_temporary": 0.6, "other": 1.0},
    ),
    (
        r"reduce_bucket|ipg_bucket|average_tensor|allreduce|Reducer|DistributedDataParallel|ipg_grads"
        r"|_ddp_init|reduce_scatter|bucket|independent_gradient|_reduce_grad",
        {"gradient_bucket": 1.0, "weight_gradient": 0.3},
    ),
    (
        r"state_dict|save_checkpoint|save_pretrained|save_model|torch\.save|FULL_STATE|safetensors",
        {"state_dict_copy": 1.0, "gathered_parameter": 0.3},
    ),
    (
        r"all_gather|_allgather|unshard|_alloc_storage|_alloc_padded|AllGather|fetch_sub_module"
        r"|partition_parameters|GatheredParameters|partitioned_param_coordinator|foreach_all_gather"
        r"|summon_full|_init_flat_param|flatten_params|flat_param",
        {"gathered_parameter": 1.0, "weights": 0.08, "state_dict_copy": 0.05},
    ),
    (
        r"from_pretrained|_load_state_dict|set_module_tensor|load_checkpoint|_apply\(|\.cuda\("
        r"|\.to\(device|t\.to\(|convert\(t|torch\.empty\(|load_shard|dispatch_model|_move_model"
        r"|model\.to\(|set_module_quantized|param_applied|load_state_dict|create_weights",
        {"weights": 1.0, "reference_model": 0.2, "dequantized_weight": 0.05},
    ),
    (
        r"optimizer\.step|optim\.step|adamw?\.py|optimizer_step|adafactor|\.step\(closure",
        {"optimizer_state": 1.0, "optimizer_temporary": 0.9, "weight_gradient": 0.02},
    ),
    (
        r"run_backward|\.backward\(|_engine_run",
        {
            "logits_gradient": 1.0,
            "weight_gradient": 0.8,
            "mlp_activation": 0.5,
            "activation": 0.5,
            "attention_scores": 0.7,
            "log_softmax": 0.3,
            "dequantized_weight": 0.3,
            "gathered_parameter": 0.1,
            "gradient_bucket": 0.1,
            "logits_fp32": 0.1,
        },
    ),
)
_COMPILED = tuple((re.compile(pattern, re.I), kinds) for pattern, kinds in _RULES)
_PHASES = (
    (
        "save or merge",
        re.compile(
            r"save_model|save_checkpoint|merge_and_unload|save_pretrained|Failed to clone", re.I
        ),
    ),
    (
        "evaluation",
        re.compile(
            r"evaluation_loop|prediction_step|prediction_loop|\.evaluate\(|in evaluate"
            r"|trainer\.predict|eval_loop",
            re.I,
        ),
    ),
    (
        "generation",
        re.compile(r"\.generate\(|in generate|_sample\(|greedy_search|beam_search|vllm", re.I),
    ),
    (
        "optimizer step",
        re.compile(
            r"optimizer\.step|optim\.step|initialize_optimizer_states|_configure_zero|adamw?\.py|take_model_step|_foreach_|exp_avg",
            re.I,
        ),
    ),
    ("backward", re.compile(r"run_backward|\.backward\(|in backward", re.I)),
    ("load", re.compile(r"from_pretrained|model\.to\(|load_checkpoint|\.cuda\(\)|_apply\(", re.I)),
    ("loss", re.compile(r"cross_entropy|loss_function|log_softmax|lm_head|logits", re.I)),
    ("forward", re.compile(r"modeling_|in forward|_call_impl|compute_loss", re.I)),
)
_LINEAR = re.compile(r"\b([a-z0-9_]+_proj|lm_head|embed_tokens|fc[12]|c_fc|c_proj|c_attn)\b")


def read_frames(frames: Sequence[str]) -> Evidence:
    """The kinds that the innermost telling frame speaks for."""
    phase = ""
    for name, pattern in _PHASES:
        if any(pattern.search(frame) for frame in frames):
            phase = name
            break
    for frame in reversed(frames):
        for pattern, kinds in _COMPILED:
            if pattern.search(_without_folders(frame)):
                names = tuple(dict.fromkeys(_LINEAR.findall(frame)))
                return Evidence(_by_phase(kinds, phase), frame.strip()[:160], phase, names)
    return Evidence(phase=phase)


def _without_folders(frame: str) -> str:
    """A frame without the folders of its file, which are the user's own words."""
    return re.sub(r'[^"\s]++', _without_folder, frame)


def _without_folder(word: re.Match[str]) -> str:
    return word[0].rpartition("/")[2] if ".py" in word[0] else word[0]


def _by_phase(kinds: Mapping[str, float], phase: str) -> Mapping[str, float]:
    changed = dict(kinds)
    if phase == "evaluation":
        for kind in ("logits", "logits_fp32"):
            if kind in changed:
                changed["eval_logits"] = max(changed.get("eval_logits", 0), 0.5 * changed[kind])
        changed.pop("logits_gradient", None)
        changed.pop("weight_gradient", None)
    if phase == "save or merge" and "gathered_parameter" in changed:
        changed["state_dict_copy"] = max(changed.get("state_dict_copy", 0), 0.9)
    return changed
