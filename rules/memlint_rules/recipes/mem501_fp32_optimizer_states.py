"""Adam's states in full width.

Source: torchtune documentation, "Memory Optimization Overview"; the optimizers of torchao and
bitsandbytes; the schemas of axolotl and LLaMA-Factory.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Finding,
    Fix,
    Level,
    Recipe,
    RecipeKind,
    RecipeOption,
    Script,
    advise,
    fix,
    is_adapter,
    is_on,
    is_sharded,
    remove_key,
    replace_callee,
    set_key,
    together,
    trains,
)

_TORCH = ("torch.optim.AdamW", "torch.optim.Adam")
_NAMED = (None, "adamw_torch", "adamw_torch_fused", "adamw_hf")
_STATELESS = ("use_galore", "use_badam", "use_apollo", "use_adam_mini", "use_muon")
_PAGED = "bitsandbytes.optim.PagedAdamW8bit"
# Parameters of torch's Adam that the paged one lacks.
_SHARED = frozenset({"params", "lr", "betas", "eps", "weight_decay"})
_OF_TORCH = ("fused", "foreach", "capturable", "differentiable", "maximize")


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    if not trains(recipe) or is_adapter(recipe) or recipe.component("optimizer") not in _TORCH:
        return
    option = recipe.option("optimizer._component_")
    in_fp32 = recipe.option("dtype").is_value("fp32")
    level = None if in_fp32 else Level.HINT
    if is_sharded(recipe):
        proposed = advise("Use `torchao.optim.AdamW8bit`, which shards")
    else:
        edits = set_key(recipe, "optimizer._component_", repr(_PAGED))
        for key in _OF_TORCH:
            edits = together(edits, remove_key(recipe, f"optimizer.{key}"))
        proposed = fix(f"Use `{_PAGED}`", edits, unsafe=True)
    yield Finding(option.span, _states("fp32" if in_fp32 else "bf16"), proposed, level)


def _axolotl(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("optimizer")
    in_fp32 = is_on(recipe, "float32") or (
        recipe.option("bf16").value is False and recipe.option("fp16").value in (False, None)
    )
    if not trains(recipe) or is_adapter(recipe) or is_sharded(recipe):
        return
    if not in_fp32 or not option.given:
        return
    if option.value in (*_NAMED, "adamw_apex_fused"):
        yield _finding(recipe, option, "adamw_bnb_8bit")


def _llama_factory(recipe: Recipe) -> Iterator[Finding]:
    tuning, optimizer = recipe.option("finetuning_type"), recipe.option("optim")
    if not trains(recipe) or not tuning.is_value("full") or optimizer.value not in _NAMED:
        return
    if not is_on(recipe, "pure_bf16", *_STATELESS) and not is_sharded(recipe):
        shown = optimizer if optimizer.given else tuning
        yield _finding(recipe, optimizer._replace(span=shown.span), "adamw_8bit")


def _finding(recipe: Recipe, option: RecipeOption, narrow: str) -> Finding:
    edits = set_key(recipe, option.path, repr(narrow))
    proposed = fix(f"Set `{option.key}: {narrow}`", edits, unsafe=True)
    return Finding(option.span, _states("fp32"), proposed)


def _states(dtype: str) -> str:
    wide = 8 if dtype == "fp32" else 4
    return f"Adam keeps two {dtype} states a weight: {wide} bytes, where 8-bit states take 2"


def _in_python(script: Script) -> Iterator[Finding]:
    model = script.torchtune
    if model is None or model.is_adapter or script.is_sharded or script.may_use("fsdp", "FSDP"):
        return
    optimizer = model.optimizer
    if optimizer is not None and optimizer.name in _TORCH and model.dtype is not None:
        in_fp32 = model.dtype == "torch.float32"
        yield Finding(
            script.span(optimizer.node.func),
            _states("fp32" if in_fp32 else "bf16"),
            _replaced(script, optimizer),
            None if in_fp32 else Level.HINT,
        )


def _replaced(script: Script, call: Call) -> Fix:
    """The paged optimizer in the place of torch's."""
    message = f"Use `{_PAGED}` (pip install bitsandbytes)"
    if call.has_unknown_keywords or not _SHARED.issuperset(call.keywords):
        return advise(message)
    return fix(message, replace_callee(script, call, _PAGED), unsafe=True)


CHECKS = {
    RecipeKind.TORCHTUNE: _torchtune,
    RecipeKind.AXOLOTL: _axolotl,
    RecipeKind.LLAMA_FACTORY: _llama_factory,
}
IN_PYTHON = _in_python
