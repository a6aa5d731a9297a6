"""What libraries and scripts hold, one mechanism each: the bytes that it adds, by arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import Estimate, SettingsError, estimate
from memlint.memory.config_reader import read_config
from memlint.memory.sharding import fullest_part, plain_options, unread
from memlint.reports.memory import as_text

RUN: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-1.5B",
    "method": "full",
    "micro_batch": 2,
    "seq_len": 1024,
    "packed": True,
    "weights_dtype": "bfloat16",
    "checkpointing": "full",
    "optimizer": "adamw_torch_fused",
    "trainer": "transformers.Trainer",
}
LOGITS = 2 * 1024 * 151936  # numbers


def _phase(result: Estimate, name: str) -> int:
    return next(phase.total for phase in result.phases if phase.name == name)


def test_a_loop_holds_its_logits_through_the_step() -> None:
    loop = estimate({**RUN, "trainer": "loop"})
    trainer = estimate(RUN)
    assert _phase(loop, "optimizer step") - _phase(trainer, "optimizer step") == 2 * LOGITS


def test_a_head_that_is_trained_alone_keeps_no_layer_for_backward() -> None:
    run = {**RUN, "model": "bert-base-uncased", "head": "classes", "labels": 4, "seq_len": 256}
    whole = estimate(run)
    alone, tables = (estimate({**run, "frozen": part}) for part in ("backbone", "embeddings"))
    assert alone.trainable == 4 * 768 + 4
    words = 30522 * 768
    assert words <= whole.trainable - tables.trainable < 1.1 * words
    # Gradients and two states of what is frozen are gone.
    gone = _phase(whole, "optimizer step") - _phase(alone, "optimizer step")
    assert gone == pytest.approx(6 * (whole.trainable - alone.trainable), rel=0.01)
    weights = _phase(alone, "load")
    assert _phase(alone, "backward") < 1.2 * weights
    assert "the head alone trained" in as_text(alone)


def test_the_longest_batch_first_has_no_gradients_beside_it() -> None:
    run = {**RUN, "gradient_accumulation": 4}
    anywhere, first = estimate(run), estimate({**run, "longest_first": True})
    assert first.allocated.estimate < anywhere.allocated.estimate
    # Batches of half the length follow, with all gradients beside them.
    half = estimate({**run, "seq_len": 512})
    assert first.allocated.estimate >= half.allocated.estimate


def test_lengths_may_grow_while_gradients_stay() -> None:
    run = {**RUN, "model": "Qwen/Qwen2.5-7B", "packed": False, "optimizer": "galore_adamw"}
    short = estimate({**run, "gradient_accumulation": 2})
    long = estimate({**run, "gradient_accumulation": 16})
    assert long.allocated == short.allocated
    assert long.reserved.estimate > 1.05 * short.reserved.estimate
    packed = [
        estimate({**run, "packed": True, "gradient_accumulation": steps}) for steps in (2, 16)
    ]
    assert packed[0].reserved == packed[1].reserved


def test_blackwell_ran_attention_again_under_selective_checkpointing() -> None:
    run = {**RUN, "checkpointing": "selective", "attention": "sdpa", "gpu": "b200-180gb"}

    def kept(**changed: Any) -> int:
        return _phase(estimate({**run, **changed}), "forward")

    at = [kept(versions={"torch": release}) for release in ("2.7", "2.8", "2.10", "2.11")]
    assert at[0] == at[3]
    assert at[1] == at[2]
    # Output and log-sum-exp of 12 heads of 128, of the 27 layers before the last.
    core = 2 * 1024 * (12 * 128 * 2 + 12 * 4)
    assert 27 * core <= at[0] - at[1] <= 28 * core
    elsewhere = {"gpu": "h200-141gb", "versions": {"torch": "2.9"}}
    assert kept(**elsewhere) - at[0] == 2 * (33554432 - 8519680)  # Hopper's workspaces alone


def test_what_attention_made_is_kept_alone() -> None:
    modes = ("full", "all_but_attention", "selective")
    run = {**RUN, "attention": "sdpa"}
    kept = [_phase(estimate({**run, "checkpointing": mode}), "forward") for mode in modes]
    core = 2 * 1024 * (12 * 128 * 2 + 12 * 4)  # output and log-sum-exp of 12 heads of 128
    assert 27 * core <= kept[1] - kept[0] <= 28 * core
    assert kept[2] - kept[1] > 27 * core


def test_softcapped_scores_are_kept() -> None:
    run = {**RUN, "model": "google/gemma-2-2b", "checkpointing": "none", "micro_batch": 1}
    eager = estimate({**run, "attention": "eager"})
    assert estimate(run).allocated.estimate == eager.allocated.estimate
    config = {"attn_logit_softcapping": None}
    plain = estimate({**run, "model": {"config": {**_gemma(), **config}}, "attention": "eager"})
    scores = 26 * 8 * 1024 * 1024
    saved = eager.allocated.estimate - plain.allocated.estimate
    assert 2 * scores <= saved <= 2.5 * scores


def _gemma() -> dict[str, Any]:
    from memlint.memory.checkpoints import find_config

    return dict(find_config("google/gemma-2-2b"))


def test_softmax_kept_its_input_before_torch_1_11() -> None:
    run = {**RUN, "checkpointing": "none", "attention": "eager", "micro_batch": 1}
    old = estimate({**run, "versions": {"torch": "1.10"}})
    new = estimate({**run, "versions": {"torch": "1.13"}})
    scores = 4 * 28 * 12 * 1024 * 1024
    assert old.allocated.estimate - new.allocated.estimate >= scores


def test_accelerate_leaves_the_last_gpu_most() -> None:
    """Qwen-14B in 16 bits: 1.56 GB of embeddings, 40 layers of 0.63 GB, 1.56 GB of output."""
    part = 1 / fullest_part(1560, [630] * 40, 1560, 2)
    assert part == pytest.approx(72.31 / (72.31 + 60.42), abs=0.005)
    assert fullest_part(0, [1] * 8, 0, 1) == 1.0


@pytest.mark.parametrize(
    ("sharding", "options", "same"),
    [
        ("fsdp", {"fsdp_sharding_strategy": "SHARD_GRAD_OP"}, {"sharding_strategy": "2"}),
        ("fsdp2", {"fsdp_reshard_after_forward": False}, {"reshard_after_forward": False}),
        ("fsdp", {"fsdp_offload_params": True}, {"cpu_offload": True}),
        (
            "zero3",
            {"zero_optimization": {"offload_param": {"device": "cpu"}}},
            {"offload_param_device": "cpu"},
        ),
    ],
)
def test_options_are_read_by_every_name(
    sharding: str, options: dict[str, Any], same: dict[str, Any]
) -> None:
    run = {**RUN, "world_size": 4, "sharding": sharding}
    one = estimate({**run, "sharding_options": options}).allocated.estimate
    assert one == estimate({**run, "sharding_options": same}).allocated.estimate
    assert one != estimate(run).allocated.estimate


def test_accelerate_s_own_names_of_deepspeed_s_options_are_no_assumption() -> None:
    section = {"zero_stage": 3, "zero3_init_flag": True, "gradient_accumulation_steps": 4}
    assert unread({f"deepspeed_{name}": value for name, value in section.items()}) == ()
    assert unread(section) == ()


def test_options_that_are_not_read_are_named() -> None:
    assert unread({"fsdp_limit_all_gathers": False, "fsdp_use_orig_params": True}) == (
        "limit_all_gathers",
    )
    assert plain_options({"zero_optimization": {"stage": 3}}) == {"stage": 3}
    result = estimate({**RUN, "world_size": 2, "sharding_options": {"zero_hpz": 2}})
    assert any(one.name == "sharding_options.zero_hpz" for one in result.assumptions)


def test_bucket_views_need_no_second_gradients() -> None:
    run = {**RUN, "world_size": 2, "sharding": "ddp"}
    views = {**run, "sharding_options": {"gradient_as_bucket_view": True}}
    saved = estimate(run).allocated.estimate - estimate(views).allocated.estimate
    assert saved == pytest.approx(2 * estimate(run).parameters, rel=0.01)


def test_target_modules_may_be_a_pattern() -> None:
    run = {**RUN, "method": "lora"}
    names = estimate({**run, "lora": {"r": 16, "target_modules": ["q_proj", "v_proj"]}})
    pattern = estimate({**run, "lora": {"r": 16, "target_modules": r".*\.(q|v)_proj"}})
    assert pattern.trainable == names.trainable > 0
    nothing = estimate({**run, "lora": {"r": 16, "target_modules": ["Wqkv_proj"]}})
    assert any("none of them" in one.reason for one in nothing.assumptions)


def test_bits_go_with_their_type() -> None:
    with pytest.raises(SettingsError, match="bits is 4 for nf4, not 8"):
        estimate({**RUN, "method": "qlora", "quantization": {"bits": 8, "type": "nf4"}})


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        (
            {
                "model_type": "chatglm",
                "hidden_size": 4096,
                "inner_hidden_size": 16384,
                "num_attention_heads": 32,
                "num_layers": 28,
                "vocab_size": 130528,
            },
            6.173,
        ),
        ({"model_type": "phi-msft", "n_embd": 2560, "n_layer": 32, "n_head": 32,
          "vocab_size": 51200, "rotary_dim": 32}, 2.780),
        ({"model_type": "codegen", "n_embd": 2560, "n_layer": 32, "n_head": 32,
          "vocab_size": 51200, "tie_word_embeddings": False}, 2.779),
        ({"model_type": "gpt_neo", "hidden_size": 2560, "num_layers": 32, "num_heads": 20,
          "vocab_size": 50257, "max_position_embeddings": 2048}, 2.651),
        ({"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40,
          "vocab_size": 100352, "attn_config": {"kv_n_heads": 8},
          "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}}, 131.6),
        ({"model_type": "modernbert", "hidden_size": 768, "intermediate_size": 1152,
          "num_hidden_layers": 22, "num_attention_heads": 12, "vocab_size": 50368}, 0.149),
        ({"model_type": "deberta-v2", "hidden_size": 768, "num_hidden_layers": 12,
          "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 128100}, 0.185),
    ],
)  # fmt: skip
def test_families_of_other_names_have_their_published_size(
    config: dict[str, Any], billions: float
) -> None:
    assert read_config(config).parameters / 1e9 == pytest.approx(billions, rel=0.01)


def test_optimizers_stepped_one_by_one_before_torch_2() -> None:
    run = {**RUN, "optimizer": "adamw_torch", "micro_batch": 1, "seq_len": 64}
    old = estimate({**run, "versions": {"torch": "1.13"}})
    new = estimate({**run, "versions": {"torch": "2.0"}})
    table = 151936 * 1536
    less = 2 * new.parameters - 2 * 4 * table
    assert _phase(new, "optimizer step") - _phase(old, "optimizer step") == less


def test_fsdp2_reduced_each_micro_batch_before_accelerate_1_11() -> None:
    run = {**RUN, "sharding": "fsdp2", "world_size": 8, "gradient_accumulation": 4}

    def backward(**versions: str) -> int:
        return _phase(estimate({**run, "versions": versions}), "forward")

    whole, sharded = backward(accelerate="1.11"), backward(accelerate="1.10")
    parameters = estimate(RUN).parameters
    assert whole - sharded == pytest.approx(2 * parameters - 4 * parameters / 8, rel=0.01)
    assert backward(transformers="4.56") == sharded
    assert backward(transformers="4.57") == whole


def test_lfm2_attends_in_the_layers_named_and_narrows_its_maps() -> None:
    lfm2 = {
        "model_type": "lfm2",
        "hidden_size": 1024,
        "intermediate_size": 6656,
        "num_hidden_layers": 16,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "vocab_size": 65536,
        "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    }
    architecture = read_config(lfm2)
    kinds = [layer.attention.kind for layer, count in architecture.layers for _ in range(count)]
    assert [index for index, kind in enumerate(kinds) if kind == "full"] == [2, 5, 8, 10, 12, 14]
    assert architecture.parameters == pytest.approx(354_483_968, rel=0.001)


RELATIVE: dict[str, Any] = {
    "model": {
        "model_type": "t5",
        "vocab_size": 32000,
        "d_model": 1024,
        "d_kv": 64,
        "d_ff": 2048,
        "num_layers": 12,
        "num_decoder_layers": 12,
        "num_heads": 16,
        "dropout_rate": 0.0,
    },
    "method": "full",
    "micro_batch": 8,
    "seq_len": 512,
    "label_len": 128,
    "weights_dtype": "float32",
    "compute_dtype": "bfloat16",
    "autocast": True,
    "checkpointing": "none",
    "optimizer": "adamw_torch_fused",
    "trainer": "transformers.Trainer",
}


def test_relative_positions_have_no_kernel_while_their_bias_is_scattered() -> None:
    """In float32 then: each layer keeps its softmax, and queries, keys and values twice as wide."""
    at = {
        release: _phase(estimate({**RELATIVE, "versions": {"transformers": release}}), "loss")
        for release in ("5.14", "5.15", "5.19", "5.20")
    }
    assert at["5.15"] == at["5.19"]
    assert at["5.14"] > at["5.15"]
    kept = 0
    for length in (512, 128):
        tokens = 8 * length
        softmax, sums, bias = 4 * 16 * tokens * length, 4 * 16 * tokens, 2 * 16 * length**2
        wider = 3 * (4 - 2) * tokens * 1024
        kept += 12 * (softmax + wider - sums - bias)
    assert at["5.19"] - at["5.20"] == pytest.approx(kept, rel=0.02)


def test_measured_runs_of_an_encoder_and_a_decoder() -> None:
    """On an H200 with transformers 5.17, allocated; and what autograd's real tensors come to."""
    for versions, checkpointing, gib in (
        ("5.17", "none", 9.08),
        ("5.17", "full", 4.94),
        ("5.23", "none", 7.11),
    ):
        run = {**RELATIVE, "versions": {"transformers": versions}, "checkpointing": checkpointing}
        assert estimate(run).allocated.estimate == pytest.approx(gib * 2**30, rel=0.05)


def test_an_encoder_runs_backward_when_the_decoder_s_gradients_are_there() -> None:
    run = {**RELATIVE, "checkpointing": "full", "versions": {"transformers": "5.23"}}
    tensors = {each.name: each.bytes for each in estimate(run).peak.tensors}
    assert estimate(run).peak.name == "backward"
    encoder = 4 * 12 * (4 * 1024 + 2 * 2048) * 1024
    whole = 4 * estimate(run).trainable
    # All but its last layer, which is at work.
    assert tensors["gradients so far"] == pytest.approx(whole - encoder / 12, rel=0.01)


def test_a_tied_matrix_has_two_gradients_before_their_sum() -> None:
    run = {**RUN, "loss": "chunked", "trainer": "trl.SFTTrainer", "weights_dtype": "float32"}
    tied, untied = (
        estimate({**run, "model": {**_QWEN, "tie_word_embeddings": flag}}) for flag in (True, False)
    )
    table = 4 * 151936 * 512
    step = _phase(tied, "optimizer step")
    assert _phase(tied, "backward") == pytest.approx(step + table, rel=0.02)
    assert _phase(untied, "backward") < _phase(untied, "optimizer step") + table / 4


_QWEN: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 151936,
}


def test_trl_s_loss_hands_on_the_float32_gradient_that_it_sums_up() -> None:
    run = {
        **RUN, "model": {**_QWEN, "tie_word_embeddings": True}, "trainer": "trl.SFTTrainer",
        "loss": "chunked", "checkpointing": "none", "compute_dtype": "bfloat16",
    }  # fmt: skip
    found = {}
    for dtype in ("float32", "bfloat16"):
        result = estimate({**run, "weights_dtype": dtype, "autocast": dtype == "float32"})
        phase = next(each for each in result.phases if each.name == "loss")
        found[dtype] = sum(each.bytes for each in phase.tensors if "log-probabilities" in each.name)
    numbers, tile = 151936 * 512, 2 * 2048 * 32768
    casts = 2 * (2 * 32768 + 2048) * 512  # of the matrix, two parts: one is still named
    gradients = 4 * 2048 * 512
    assert found["float32"] == pytest.approx(tile + casts + gradients + 4 * numbers, rel=0.01)
    assert found["bfloat16"] == pytest.approx(tile + gradients + (4 + 2) * numbers, rel=0.01)


def test_a_checkpoint_that_stays_beside_the_weights() -> None:
    run = {**RELATIVE, "checkpointing": "full"}
    more = estimate({**run, "held_checkpoint": True}).allocated.estimate
    assert more - estimate(run).allocated.estimate == 4 * estimate(run).trainable


def test_fsdp_looks_ahead_in_backward_alone() -> None:
    run = {
        **RUN, "sharding": "fsdp", "world_size": 4, "checkpointing": "full",
        "versions": {"transformers": "5.23"},
    }  # fmt: skip

    def gathered(**changed: Any) -> dict[str, float]:
        phases = estimate({**run, **changed}).phases
        return {
            phase.name: sum(one.bytes for one in phase.tensors if one.name == "gathered layers")
            for phase in phases
        }

    found = gathered()
    assert found["forward"] > 0
    assert (found["loss"], found["backward"]) == (0, 2 * found["forward"])
    # What is computed again is no part of the graph before its turn.
    assert gathered(checkpointing="reentrant")["backward"] == found["forward"]
    # FSDP2 holds the buffers of its last gathering until the next one.
    assert len(set(gathered(sharding="fsdp2").values()) - {0}) == 1


def test_a_cache_in_the_outputs_of_a_loop_stays_until_the_next_pass_is_over() -> None:
    run = {**RUN, "trainer": "loop", "checkpointing": "none", "held_cache": True}
    cache = 2 * 2 * 128 * 28 * 2 * 1024  # numbers: 2 heads of 128 in 28 layers

    def more(name: str, **changed: Any) -> int:
        found = [{**run, **changed, "held_cache": value} for value in (True, False)]
        held, none = (_phase(estimate(each), name) for each in found)
        return held - none

    # The last step's; in this pass, layers hold the same tensors.
    assert more("forward") == more("optimizer step") == 2 * cache
    assert more("optimizer step", checkpointing="full") == 0
    assert more("optimizer step", held_outputs=False) == 0
    # Rotated in float32, so that values beside the keys are float32 as well, and none of them what
    # autocast's attention holds.
    mixed = {"weights_dtype": "float32", "autocast": True}
    assert more("forward", **mixed) == 2 * 4 * cache
    assert more("forward", **mixed, held_outputs=False) == 4 * cache
