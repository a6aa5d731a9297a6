"""Scripts as they were written in 2023, brought to the installed versions and really trained.

Each script of ``tests/legacy`` fails on the installed trl and transformers. Here ``memlint fix
--select MEM9`` rewrites a copy with its safe fixes, and the copy trains three steps on the CPU with
a model of two small layers. bitsandbytes needs a GPU: 4-bit loading is checked by construction.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from memlint.cli.main import run

pytest.importorskip("trl")

# The libraries warn about themselves while they train.
pytestmark = pytest.mark.filterwarnings("ignore")

FOLDER = Path(__file__).parent / "legacy"
TEXT = "what is the answer : two and three are five while one more makes it six"
WORDS = TEXT.split()
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "__init__.py")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and a tokenizer of a few hundred kilobytes, made here."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    vocabulary = {word: at for at, word in enumerate(("<pad>", "<eos>", "<unk>", *WORDS))}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=128,
        pad_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def surroundings(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the scripts read from the environment; the folder in which they run."""
    rows = [
        {
            "prompt": "what is the answer :",
            "completion": " ".join(WORDS[at % 7 : at % 7 + 6]),
            "chosen": " two and three are five",
            "rejected": " one more makes it six",
        }
        for at in range(16)
    ]
    for row in rows:
        row["text"] = f"{row['prompt']} {row['completion']}"
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for name, value in {
        "MODEL": model,
        "DATA": data,
        "OUTPUT": tmp_path / "out",
        "TENSORBOARD_LOGGING_DIR": tmp_path / "logs",
        "HF_HOME": tmp_path / "hub",
        "HF_DATASETS_CACHE": tmp_path / "datasets",
        "HF_HUB_OFFLINE": "1",
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fixed(script: str, folder: Path) -> Path:
    """A copy of a script, after ``memlint fix --select MEM9,MEM904`` (a hint, by its code)."""
    copy = folder / script
    copy.write_text((FOLDER / script).read_text())
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        run(["fix", "--select", "MEM9,MEM904", str(copy)])
    return copy


def left(script: Path) -> list[dict[str, Any]]:
    """The findings of MEM9 that a script still has."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(io.StringIO()):
        run(["check", "--select", "MEM9", "--output-format", "json", "--no-cache", str(script)])
    findings: list[dict[str, Any]] = json.loads(shown.getvalue())
    return findings


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_of_2023_fails_as_it_was_written(script: str, surroundings: Path) -> None:
    with pytest.raises((TypeError, ImportError, AttributeError)):
        runpy.run_path(str(FOLDER / script))


@pytest.mark.draws(3)
@pytest.mark.parametrize("script", SCRIPTS)
def test_fixed_script_trains_three_steps(script: str, surroundings: Path) -> None:
    copy = fixed(script, surroundings)
    assert left(copy) == []

    ran = runpy.run_path(str(copy))

    if "trainer" in ran:
        history = ran["trainer"].state
        assert history.global_step == 3
        (summary,) = [entry for entry in history.log_history if "train_loss" in entry]
        assert 0 < summary["train_loss"] < 10
    else:
        assert len(ran["losses"]) == 3
        assert all(0 < loss < 10 for loss in ran["losses"])


def test_four_bit_loading_becomes_a_quantization_config(surroundings: Path) -> None:
    from transformers import BitsAndBytesConfig

    text = fixed("sft_qlora.py", surroundings).read_text()
    source = next(
        ast.unparse(node.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.keyword) and node.arg == "quantization_config"
    )
    built = eval(source, {"BitsAndBytesConfig": BitsAndBytesConfig, "QUANTIZED": True})
    assert isinstance(built, BitsAndBytesConfig)
    assert built.load_in_4bit
    assert eval(source, {"BitsAndBytesConfig": BitsAndBytesConfig, "QUANTIZED": False}) is None
