"""Models that are streamed from the files on: equal to loaded ones, and the recipe of the docs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import load_streamed, stream_frozen_weights
from memlint_runtime.streaming import loading, streamed_weights_of
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from tests.runtime.shared_prompt.training import saved_model, tokenizer
from tests.runtime.streaming.schedulers import DelayedCopies
from tests.runtime.streaming.training import Case, assert_same, base, train

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*deprecated.*:FutureWarning"),
    pytest.mark.usefixtures("poisoned"),
]
ROOT = Path(__file__).parents[3]


def adapters(model: Any) -> Any:
    torch.manual_seed(1)
    lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    return get_peft_model(model, lora).train()


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma2", "mixtral"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loaded_streamed_equals_loaded(family: str, dtype: torch.dtype, tmp_path: Path) -> None:
    case = Case(family)
    if family == "mixtral":
        case = Case(family, changes={"output_router_logits": False})
    base(case).save_pretrained(tmp_path)
    resident = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype)
    model = load_streamed(tmp_path, dtype=dtype, copies=DelayedCopies(), min_bytes=256)
    streamed = streamed_weights_of(model)
    assert streamed is not None
    wanted, found = resident.state_dict(), model.state_dict()
    assert list(found) == list(wanted)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    trained = []
    for candidate in (resident, model):
        torch.manual_seed(1)
        trained.append(train(get_peft_model(candidate, lora).train(), case, steps=3))
    assert_same(*trained)
    assert streamed.ring.fetches > 0


@pytest.mark.parametrize("saved", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dtype", ["auto", "bfloat16", torch.float32, None])
def test_the_type_is_the_checkpoints_or_the_one_that_is_named(
    dtype: Any, saved: torch.dtype, tmp_path: Path
) -> None:
    base(Case(dtype=saved)).save_pretrained(tmp_path)
    given = {} if dtype is None else {"dtype": dtype}
    lora = LoraConfig(r=4, target_modules=["q_proj"])
    model = load_streamed(tmp_path, peft_config=lora, min_bytes=256, **given)
    expected = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype or "auto")
    weight = model.get_base_model().model.layers[0].mlp.up_proj.weight
    assert weight.dtype == expected.model.layers[0].mlp.up_proj.weight.dtype
    assert torch.equal(weight, expected.model.layers[0].mlp.up_proj.weight)
    assert model.training
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert len(trained) == 8
    assert all("lora_" in name for name in trained)


@pytest.mark.parametrize("dtype", ["float", 16, None])
def test_what_is_no_type_is_refused(dtype: Any, tmp_path: Path) -> None:
    if dtype == "float":
        assert loading._dtype(dtype, tmp_path, None) == torch.float32
        return
    with pytest.raises(ValueError, match="its name or 'auto', got"):
        load_streamed(tmp_path, dtype=dtype)


@pytest.mark.parametrize("quantization", ["nf4", "int8"])
def test_a_quantized_base_is_that_of_transformers(quantization: Any, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    base(Case(changes={"hidden_size": 64, "intermediate_size": 128})).save_pretrained(tmp_path)
    model = load_streamed(
        tmp_path, quantization=quantization, dtype=torch.float32, copies=DelayedCopies(),
        min_bytes=0,
    )  # fmt: skip
    streamed = streamed_weights_of(model)
    assert streamed is not None
    streamed.undo()
    resident, again = adapters(model), None
    expected = train(resident, Case(), steps=3)
    resident.unload()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    again = stream_frozen_weights(model, copies=DelayedCopies(), min_bytes=0)
    assert_same(expected, train(adapters(model), Case(), steps=3))
    assert again.ring.fetches > 0


def test_unknown_quantization_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'nf4', 'int8' or None, got 'int2'"):
        load_streamed(tmp_path, quantization="int2")  # type: ignore[arg-type]


MEASURE = """
import sys, torch
from pathlib import Path
from memlint_runtime import load_streamed
from transformers import AutoModelForCausalLM
import peft, safetensors.torch, accelerate

def anonymous():
    text = Path("/proc/self/status").read_text()
    return int(text.split("RssAnon:")[1].split()[0]) * 1024

import threading
peak, stop = [0], threading.Event()
def watch():
    while not stop.wait(0.001):
        peak[0] = max(peak[0], anonymous())
start = anonymous()
thread = threading.Thread(target=watch); thread.start()
model = load_streamed(sys.argv[1], dtype=torch.float32)
stop.set(); thread.join()
from memlint_runtime.streaming import streamed_weights_of
print(peak[0] - start, streamed_weights_of(model).host_bytes)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's counters")
def test_peak_of_host_memory_is_the_store(tmp_path: Path) -> None:
    sizes = {"hidden_size": 512, "intermediate_size": 2048, "head_dim": 128}
    base(Case(changes={**sizes, "num_hidden_layers": 8})).save_pretrained(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    peak, store = map(int, done.stdout.split())
    assert store > 100e6
    assert peak < 1.4 * store


@pytest.mark.parametrize("quantization", ["nf4", None])
def test_the_recipe_of_the_docs_runs(quantization: str | None, tmp_path: Path) -> None:
    """With a tiny model in place of the one that does not fit."""
    text = (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    model = saved_model(tmp_path / "model")
    for stands, instead in [
        ('"meta-llama/Llama-3.3-70B-Instruct"', repr(model)),
        ('quantization="nf4"', f"quantization={quantization!r}, min_bytes=0"),
        ("from datasets import load_dataset", "from datasets import Dataset"),
        (
            'load_dataset("trl-lib/Capybara", split="train")',
            "Dataset.from_dict({'text': ['w1 w2 w3 w4', 'w5 w6 w7'] * 8})",
        ),
        (
            "bf16=True",
            "bf16=False, use_cpu=True, report_to=[], max_steps=3, disable_tqdm=True",
        ),
        # A tokenizer of words: its name in the folder's configuration would bring another.
        ("AutoTokenizer.from_pretrained(name)", "tokenizer()"),
        ('"adapter"', repr(str(tmp_path / "adapter"))),
        ('"out"', repr(str(tmp_path / "out"))),
    ]:
        assert stands in code
        code = code.replace(stands, instead)
    namespace: dict[str, Any] = {"tokenizer": tokenizer}
    exec(compile(code, "docs/streaming.md", "exec"), namespace)
    streamed = streamed_weights_of(namespace["model"])
    assert streamed is not None
    assert streamed.ring.fetches > 10
    losses = [e["train_loss"] for e in namespace["trainer"].state.log_history if "train_loss" in e]
    assert losses[0] > 1
    base = AutoModelForCausalLM.from_pretrained(model)
    again = PeftModel.from_pretrained(base, tmp_path / "adapter")
    assert any(p.abs().sum() > 0 for n, p in again.named_parameters() if "lora_B" in n)
