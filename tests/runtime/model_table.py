"""Which model types of transformers the runtime serves, tried one by one: writes the table.

    python -m tests.runtime.model_table [TYPE ...]
    python -m tests.runtime.model_table --page

Each causal-LM and image-text-to-text type is built tiny from its default configuration, and its
plain loss, logits and log-probabilities are compared with the fused loss, with packed documents and
with shared prompts. A type that cannot be shrunk or run plainly is unknown. Each runs in a process
of its own, which may take a minute. The table is `memlint_runtime/model_types.json`: for each type
and feature "exact", "refused: REASON", "differs: HOW MUCH", "fails: ERROR" or "unknown: WHY".
`--page` writes `docs/model-types.md` from it and tries nothing; a run of types writes it too.
"""

from __future__ import annotations

import inspect
import json
import logging as stdlib_logging
import multiprocessing
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)
from transformers.utils import logging

TABLE = Path(__file__).parents[2] / "runtime/memlint_runtime/model_types.json"
PAGE = Path(__file__).parents[2] / "docs/model-types.md"
SECONDS = 90
VOCABULARY = 128

# Sizes by the names that configurations have for them.
_SIZES: dict[str, int] = dict.fromkeys(
    ("hidden_size", "d_model", "n_embd", "dim", "hidden_dim", "embed_dim", "word_embed_proj_dim",
     "embedding_size", "out_hidden_size", "cross_attention_hidden_size", "lm_head_hidden_size"), 32,
) | dict.fromkeys(
    ("intermediate_size", "ffn_dim", "d_ff", "n_inner", "ffn_hidden_size", "decoder_ffn_dim",
     "encoder_ffn_dim", "dense_intermediate_size", "intermediate_size_mlp", "mlp_hidden_size"), 48,
) | dict.fromkeys(
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers",
     "depth", "num_decoder_layers"), 2,
) | dict.fromkeys(
    ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
     "encoder_attention_heads", "num_experts", "num_local_experts", "n_routed_experts",
     "mamba_n_heads", "mamba_num_heads", "linear_num_value_heads", "num_ln_in_parallel_attn",
     "moe_num_experts"), 4,
) | dict.fromkeys(
    ("num_key_value_heads", "n_kv_heads", "num_kv_heads", "num_experts_per_tok",
     "num_selected_experts", "moe_topk", "top_k_experts", "linear_num_key_heads", "moe_top_k",
     "moe_k"), 2,
) | dict.fromkeys(
    ("head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "q_lora_rank",
     "kv_lora_rank", "linear_key_head_dim", "linear_value_head_dim", "state_size", "mamba_d_state",
     "global_head_dim", "swa_head_dim", "rope_head_dim", "attention_head_dim"), 8,
) | dict.fromkeys(
    ("moe_intermediate_size", "shared_expert_intermediate_size", "mamba_d_head", "mamba_head_dim",
     "hidden_size_per_layer_input", "moe_shared_expert_intermediate_size", "qk_head_dim",
     "expert_ffn_hidden_size"), 16,
) | dict.fromkeys(
    ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length",
     "max_target_positions", "max_source_positions"), 128,
) | dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace", "decoder_sparse_step"), 1) | {
    "vocab_size": VOCABULARY, "vocab_size_per_layer_input": VOCABULARY, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "image_size": 16, "patch_size": 4, "sliding_window": 6,
    "type_vocab_size": 2, "num_nextn_predict_layers": 0, "mm_tokens_per_image": 4,
    "num_kv_shared_layers": 0, "time_step_rank": 4, "n_groups": 1,
    "mamba_n_groups": 1, "mamba_ngroups": 1, "linear_num_heads": 4, "linear_head_dim": 8,
}  # fmt: skip

_ANYTHING_BUT_TEXT = ("image", "video", "audio", "vision")


def shrunk(settings: dict[str, Any], *, sections: bool = False) -> dict[str, Any]:
    """The settings of a configuration, and of those within it, at tiny sizes, nothing at random.

    sections: rotary positions are by section, whose sizes are a default that no setting shows.
    """
    made: dict[str, Any] = {}
    own_heads = settings.get("num_key_value_heads") == settings.get("num_attention_heads")
    for name, value in settings.items():
        if isinstance(value, dict) and name != "per_layer_config":
            value = shrunk(value, sections=sections)
            if sections and name in ("rope_parameters", "rope_scaling"):
                value["mrope_section"] = [2, 1, 1]
        elif isinstance(value, float) and ("drop" in name or "jitter" in name):
            value = 0.0
        elif name == "num_key_value_heads" and own_heads:
            value = _SIZES["num_attention_heads"]
        elif name == "head_dim" and (value is None or "expand" in settings):
            value = 8 if value is None else 16
        elif name == "full_attn_idxs":
            value = [1]
        elif name == "mamba_d_ssm":
            value = _SIZES["mamba_n_heads"] * _SIZES["mamba_d_head"]
        elif name == "attention_types":
            value = [[["global", "local"], 1]]
        elif name == "per_layer_config":
            value = {}
        elif type(value) is int and name in _SIZES:
            value = _SIZES[name]
        elif type(value) is int and name.endswith(("_token_id", "_token_index")):
            value = VOCABULARY - 1 - sum(name.startswith(kind) for kind in _ANYTHING_BUT_TEXT)
        elif name in ("layer_types", "layers_block_type", "mlp_layer_types") and value:
            value = [*dict.fromkeys(value)][:2]
            value = value * 2 if len(value) == 1 else value
        elif name == "mrope_section":
            value = [2, 1, 1]
        made[name] = value
    return made


def tiny(model_type: str) -> Any:
    """The model of a type, in training mode, its weights large enough for mistakes to show."""
    default = AutoConfig.for_model(model_type)
    sections = any(part in model_type for part in ("vl", "4v", "46v", "omni", "ocr", "glmga"))
    # The thinkers of omni models read it, and only published configurations have it.
    published = {"vision_start_token_id": 0} if "omni" in model_type else {}
    config = type(default).from_dict(shrunk(published | default.to_dict(), sections=sections))
    auto = (
        AutoModelForCausalLM
        if model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        else AutoModelForImageTextToText
    )
    with torch.device("meta"):
        size = sum(p.numel() for p in auto.from_config(config).parameters())
    if size > 30_000_000:
        raise RuntimeError(f"{size} parameters when shrunk")
    torch.manual_seed(0)
    model = auto.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0.0, 0.2)
    return model.train()


def ids_of(rows: int, tokens: int) -> Tensor:
    random = torch.Generator().manual_seed(1)
    return torch.randint(3, VOCABULARY - 12, (rows, tokens), generator=random)


def distance(found: Tensor, wanted: Tensor) -> float:
    """The median token's relative error: an expert chosen by a hair moves few tokens far."""
    found, wanted = found.detach().double(), wanted.detach().double()
    return float(((found - wanted).norm(dim=-1) / wanted.norm(dim=-1).clamp(min=1e-9)).median())


class NotTriedError(Exception):
    """The model has no such feature, or wants inputs that are not made here."""


def fused_loss(model: Any) -> float:
    from memlint_runtime import fuse_causal_lm_loss

    ids = ids_of(2, 12)
    plain = model(input_ids=ids, labels=ids, use_cache=False).loss
    plain.backward()
    wanted = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    with fuse_causal_lm_loss(model):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
    grown = [p.grad for p in model.parameters() if p.grad is not None]
    moved = sum(float((a - b).norm()) ** 2 for a, b in zip(grown, wanted, strict=True)) ** 0.5
    whole = sum(float(b.norm()) ** 2 for b in wanted) ** 0.5
    return max(float((loss - plain).abs() / plain.abs()), moved / whole)


def packing(model: Any) -> float:
    from memlint_runtime import use_variable_length_attention

    documents = [ids_of(1, 9), ids_of(1, 14)[:, 2:]]
    with torch.no_grad():
        wanted = [model(input_ids=one, use_cache=False).logits[0] for one in documents]
        use_variable_length_attention(model)
        places = [torch.arange(one.shape[1]) for one in documents]
        packed = model(
            input_ids=torch.cat(documents, 1), position_ids=torch.cat(places)[None], use_cache=False
        ).logits[0]
    return distance(packed, torch.cat(wanted))


def shared_prompt(model: Any) -> float:
    from memlint_runtime.shared_prompt import Sharing, shared_prompt_logprobs

    prompt = ids_of(1, 8).expand(3, -1)
    completion = ids_of(3, 7)
    ids = torch.cat([prompt, completion], 1)
    with torch.no_grad():
        found = shared_prompt_logprobs(
            model,
            prompt,
            torch.ones_like(prompt),
            completion,
            torch.ones_like(completion),
            sharing=Sharing(min_saved_tokens=1),
        )
        mask = torch.ones_like(ids)
        try:
            logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        except AttributeError as error:
            raise NotTriedError(_line(error)) from error
    wanted = logits[:, 7:-1].float().log_softmax(-1).gather(-1, completion[..., None])
    return distance(found[..., None], wanted)


def images(model: Any) -> float:
    """A group whose prompt holds an image, by TRL's fused scoring: the loss of every row."""
    from memlint_runtime.shared_prompt import Sharing
    from memlint_runtime.trl.forward import TokenCount, share_prompts
    from trl.trainer.utils import add_fused_lm_head

    batch = _with_images(model)
    add_fused_lm_head(model)
    ids = batch["input_ids"]
    labels = ids.clone()
    labels[:, :-7] = -100
    with torch.no_grad():
        try:
            wanted = model(**batch, labels=labels, fused_lm_head=True).log_probs
        except Exception as error:
            raise NotTriedError(_line(error)) from error
        share_prompts(model, Sharing(min_saved_tokens=1), count := TokenCount())
        said = _what_is_said(lambda: model(**batch, labels=labels, fused_lm_head=True))
    if not count.forwarded:
        raise ValueError(said.text)
    return distance(said.output.log_probs[:, -7:, None], wanted[:, -7:, None])


class _Said(NamedTuple):
    output: Any
    text: str


def _what_is_said(call: Callable[[], Any]) -> _Said:
    """The result of a call, and the warning that the runtime logs in it."""
    records: list[str] = []

    class Handler(stdlib_logging.Handler):
        def emit(self, record: stdlib_logging.LogRecord) -> None:
            records.append(record.getMessage())

    logger = stdlib_logging.getLogger("memlint_runtime.trl")
    logger.addHandler(handler := Handler(stdlib_logging.WARNING))
    try:
        return _Said(call(), " ".join(records))
    finally:
        logger.removeHandler(handler)


def _with_images(model: Any) -> dict[str, Tensor]:
    """Three rows of one prompt with an image, as many tokens for it as the model makes of it."""
    config = model.config
    token = getattr(config, "image_token_id", None) or getattr(config, "image_token_index", None)
    tower = getattr(model.base_model, "get_image_features", None)
    if token is None or tower is None or not hasattr(config, "vision_config"):
        raise NotTriedError("it takes no images")
    vision = config.vision_config
    sides = (getattr(vision, "image_size", 16), getattr(vision, "patch_size", 4))
    side, patch = (one[0] if isinstance(one, list | tuple) else one for one in sides)
    batch: dict[str, Tensor] = {}
    if "image_grid_thw" in inspect.signature(model.base_model.forward).parameters:
        frames = getattr(vision, "temporal_patch_size", 1)
        batch["pixel_values"] = torch.randn(16, 3 * frames * patch * patch)
        batch["image_grid_thw"] = torch.tensor([[1, 4, 4]])
    else:
        batch["pixel_values"] = torch.randn(1, 3, side or 16, side or 16)
    try:
        with torch.no_grad():
            made = tower(**batch, return_dict=True).pooler_output
    except Exception as error:
        raise NotTriedError(_line(error)) from error
    count = len(made[0]) if not isinstance(made, Tensor) or made.dim() > 2 else len(made)
    batch = {name: torch.cat([value] * 3) for name, value in batch.items()}
    prompt = torch.cat([ids_of(1, 4), torch.full((1, count), token), ids_of(1, 8)], 1)
    batch["input_ids"] = torch.cat([prompt.expand(3, -1), ids_of(3, 7)], 1)
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    for name in ("mm_token_type_ids", "token_type_ids"):
        if name in inspect.signature(model.base_model.forward).parameters:
            batch[name] = (batch["input_ids"] == token).int()
    return batch


FEATURES: dict[str, tuple[Callable[[Any], float], float]] = {
    "fused_loss": (fused_loss, 1e-4),
    "packing": (packing, 1e-4),
    "shared_prompt": (shared_prompt, 1e-4),
    "images": (images, 1e-4),
}


def verdicts(model_type: str) -> dict[str, str]:
    """A verdict for each feature. A plain pass comes first: what fails there is no refusal."""
    found = {}
    try:
        model = tiny(model_type)
        ids = ids_of(2, 12)
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    except Exception as error:
        return dict.fromkeys(FEATURES, f"unknown: {_line(error)}")
    for feature, (compare, tolerated) in FEATURES.items():
        model = tiny(model_type)
        try:
            error_share = compare(model)
        except NotTriedError as error:
            found[feature] = f"not tried: {_line(error)}"
        except (ValueError, RuntimeError) as error:
            found[feature] = f"refused: {_line(error)}"
        except Exception as error:
            found[feature] = f"fails: {type(error).__name__}: {_line(error)}"
        else:
            exact = error_share <= tolerated
            found[feature] = "exact" if exact else f"differs: {error_share:.1e}"
    return found


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _report(model_type: str, sender: Any) -> None:
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    sender.send(verdicts(model_type))


def tried(model_type: str) -> dict[str, str]:
    """The verdicts, from a process that may be ended."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(model_type, sender))
    process.start()
    sender.close()
    try:
        if receiver.poll(SECONDS):
            result: dict[str, str] = receiver.recv()
            return result
        return dict.fromkeys(FEATURES, f"unknown: took over {SECONDS} s")
    except EOFError:
        return dict.fromkeys(FEATURES, "unknown: its process ended")
    finally:
        process.kill()
        process.join()


def types() -> list[str]:
    return sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES})


def read_table() -> dict[str, dict[str, str]]:
    """The verdicts by type, as written."""
    if not TABLE.exists():
        return {}
    found: dict[str, dict[str, str]] = json.loads(TABLE.read_text(encoding="utf-8"))["types"]
    return found


def write_table(table: dict[str, dict[str, str]]) -> None:
    stored = {"transformers": transformers.__version__, "types": dict(sorted(table.items()))}
    TABLE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def page(table: dict[str, dict[str, str]]) -> str:
    """The table for readers: reasons as footnotes, since few reasons serve many types."""
    tried_types = {kind: row for kind, row in table.items() if not _unknown(row)}
    reasons: list[str] = []
    lines = []
    for kind, row in sorted(tried_types.items()):
        cells = [kind]
        for feature in FEATURES:
            verdict, _, reason = row.get(feature, "not tried").partition(": ")
            if verdict == "not tried":
                verdict = ""
            elif reason:
                reason = _general(reason)
                if reason not in reasons:
                    reasons.append(reason)
                verdict += f" ({reasons.index(reason) + 1})"
            cells.append(verdict)
        lines.append(f"| {' | '.join(cells)} |")
    count = {
        name: sum(row.get(name) == "exact" for row in tried_types.values()) for name in FEATURES
    }
    untried = sorted(table.keys() - tried_types.keys())
    return "\n".join(
        [
            "# Model types",
            "",
            "<!-- generated by `python -m tests.runtime.model_table --page` -->",
            "",
            f"{len(tried_types)} causal-LM and image-text-to-text types of transformers "
            f"{transformers_of_table()}, each built tiny and compared with its own plain answers "
            "(text only but for the last column): the fused loss with the plain loss and every "
            "gradient, packed documents with each document alone, shared prompts with repeated "
            "ones. `images`: a group whose prompt holds an image, in TRL's scoring; empty where a "
            "type takes none, or wants them otherwise than as pixels with at most a grid. Where "
            "that is refused, such prompts are repeated, and that is said.",
            "`exact`: equal up to rounding. `refused`: a ValueError with the reason, before or at "
            "the first use; nothing is silently wrong.",
            "",
            *(f"- {name.replace('_', ' ')}: {number} exact" for name, number in count.items()),
            "",
            f"| type | {' | '.join(name.replace('_', ' ') for name in FEATURES)} |",
            "| --- " * (1 + len(FEATURES)) + "|",
            *lines,
            "",
            "## Reasons",
            "",
            *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1)),
            "",
            "## Not tried",
            "",
            "Types that need more than tokens, or whose defaults do not shrink to a model of a few "
            f"thousand parameters: {', '.join(untried)}.",
            "",
        ]
    )


def _unknown(row: dict[str, str]) -> bool:
    return any(verdict.startswith("unknown") for verdict in row.values())


def _general(reason: str) -> str:
    """A reason without the class that it was raised for."""
    reason = re.sub(
        r"\b[A-Z]\w*(?:For\w+|Model|Attention|LMHead\w*|Linear|Decoder)\b", "the model", reason
    )
    reason = re.sub(r" by \d+\.\d%", "", reason)
    return reason.removeprefix("this model cannot share prompts: ").replace("|", "\\|")


def transformers_of_table() -> str:
    version: str = json.loads(TABLE.read_text(encoding="utf-8"))["transformers"]
    return version


def main(chosen: list[str]) -> None:
    if chosen == ["--page"]:
        PAGE.write_text(page(read_table()), encoding="utf-8")
        return
    table = read_table() if chosen else {}
    for model_type in chosen or types():
        table[model_type] = tried(model_type)
        sys.stdout.write(" | ".join((model_type, *table[model_type].values())) + "\n")
        sys.stdout.flush()
        write_table(table)
    PAGE.write_text(page(table), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
