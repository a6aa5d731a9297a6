"""Length profiles: numbers against brute force, every kind of input, and the command line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from memlint_runtime import LengthProfile
from memlint_runtime.lengths import save_png, terminal_picture
from memlint_runtime.lengths.__main__ import main
from rich.console import Console

LENGTHS = st.lists(st.integers(0, 300), min_size=1, max_size=60)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?")
    fast.chat_template = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} . {% endfor %}"
    fast.save_pretrained(tmp_path_factory.mktemp("tokenizer"))
    return fast


@given(lengths=LENGTHS, limit=st.integers(0, 320))
def test_cutting_loses_what_is_behind_the_cut(lengths: list[int], limit: int) -> None:
    profile = LengthProfile.of_lengths(lengths)
    assert profile.tokens_lost(limit) == sum(max(0, n - limit) for n in lengths)
    assert profile.rows_cut(limit) == sum(n > limit for n in lengths)


@given(lengths=LENGTHS, keep=st.floats(0, 1), multiple=st.integers(1, 64))
def test_suggestion_keeps_what_was_asked(lengths: list[int], keep: float, multiple: int) -> None:
    profile = LengthProfile.of_lengths(lengths)
    suggested = profile.suggest_max_length(keep, multiple)
    assert suggested % multiple == 0
    assert profile.rows_cut(suggested) <= (1 - keep) * len(lengths) + 1e-6
    if suggested > multiple:
        whole = sum(n <= suggested - multiple for n in lengths)
        assert whole < keep * len(lengths) + 1e-6, "a shorter one would have done"


def test_padded_share_is_that_of_random_batches() -> None:
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(6, 0.8, 20_000), 1, 4096).astype(int)
    profile = LengthProfile.of_lengths(lengths)
    for size in (1, 2, 8):
        batches = rng.choice(lengths, (20_000, size))
        slots = batches.max(1).sum() * size
        assert profile.padded_share(size) == pytest.approx(1 - batches.sum() / slots, abs=5e-3)
    assert profile.packed_share(4096) > 0.99


def test_quantiles_of_small_data() -> None:
    profile = LengthProfile.of_lengths(range(1, 101))
    assert [profile.quantile(q) for q in (0.0, 0.01, 0.5, 0.99, 1.0)] == [1, 1, 50, 99, 100]
    assert profile.suggest_max_length() == 104
    assert profile.suggest_max_length(0.5, 1) == 50


def test_every_kind_of_data(tokenizer: Any, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")

    def lengths(data: Any, **options: Any) -> list[int]:
        return sorted(LengthProfile.of(data, **options).lengths.tolist())

    tokens = datasets.Dataset.from_dict({"input_ids": [[1] * 5, [1], [1] * 3]})
    assert lengths(tokens) == [1, 3, 5]
    assert lengths(tokens.select([0, 2])) == [3, 5]
    assert lengths(tokens.to_iterable_dataset(), limit=2) == [1, 5]
    assert LengthProfile.of(tokens).lengths.tolist() == [5, 1, 3], "the data's order"
    assert lengths([[1, 2], [3]]) == [1, 2]
    assert lengths([7, 4]) == [4, 7]
    texts = datasets.Dataset.from_dict({"text": ["a b c", "d"], "other": ["x", "y z"]})
    assert lengths(texts, tokenizer=tokenizer) == [1, 3]
    assert lengths(texts, tokenizer=tokenizer, column="other") == [1, 2]
    chat = [{"messages": [{"role": "user", "content": "a b"}, {"role": "system", "content": "c"}]}]
    assert lengths(chat, tokenizer=tokenizer) == [7]
    pairs = [{"prompt": "a b", "chosen": "c", "rejected": "d e f"}]
    assert lengths(pairs, tokenizer=tokenizer) == [5]
    assert lengths([{"prompt_ids": [1, 2], "completion_ids": [3]}]) == [3]
    tokens.save_to_disk(tmp_path / "saved")
    tokens.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.json").write_text("[[1, 2], [3]]")
    (tmp_path / "t.txt").write_text("a b\nc\n")
    assert lengths(tmp_path / "saved") == lengths(tmp_path / "t.parquet") == [1, 3, 5]
    assert (
        lengths(tmp_path / "t.json") == lengths(tmp_path / "t.txt", tokenizer=tokenizer) == [1, 2]
    )


def test_stored_profile_is_the_same(tmp_path: Path) -> None:
    profile = LengthProfile.of_lengths([5, 3, 3, 900])
    profile.save(tmp_path / "profile.json")
    assert LengthProfile.load(tmp_path / "profile.json").to_dict() == profile.to_dict()
    stored = json.loads((tmp_path / "profile.json").read_text())
    assert stored["rows"] == 4
    assert 0 < stored["padded_share"]["8"] < 1
    with pytest.raises(ValueError, match="no length profile"):
        LengthProfile.from_dict({"rows": 3})


def test_pictures(tmp_path: Path) -> None:
    profile = LengthProfile.of_lengths([5, 3, 3, 900])
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal_picture(profile, batch_size=4, max_length=512))
    shown = console.export_text()
    assert "1 sequences, 388 tokens (42.59%)" in shown
    assert "padding, batches of 4" in shown
    save_png(profile, tmp_path / "lengths.png")
    assert (tmp_path / "lengths.png").read_bytes().startswith(b"\x89PNG")


def test_command_line(tokenizer: Any, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "a b c"}\n\n{"text": "d"}\n')
    tokenizer.save_pretrained(tmp_path / "tok")
    run = CliRunner().invoke
    shown = run(main, [str(data), "--tokenizer", str(tmp_path / "tok"), "--max-length", "2"])
    assert shown.exit_code == 0, shown.output
    assert "1 sequences, 1 tokens (25.00%)" in shown.output
    as_json = run(main, [str(data), "--tokenizer", str(tmp_path / "tok"), "--json"])
    assert json.loads(as_json.output)["lengths"] == {"1": 1, "3": 1}
    for arguments, message in (
        ([str(data)], "texts need a tokenizer"),
        ([str(tmp_path / "none.jsonl")], "there is no file or folder"),
        ([str(data), "--tokenizer", str(tmp_path)], "cannot load a tokenizer"),
        ([str(data), "--column", "body"], "a row has no 'body' but 'text'"),
    ):
        wrong = run(main, arguments)
        assert wrong.exit_code == 1
        assert message in wrong.output
        assert "Traceback" not in wrong.output
    (tmp_path / "bad.jsonl").write_text('{"text": 1\n')
    assert "bad.jsonl, line 1 is not JSON" in run(main, [str(tmp_path / "bad.jsonl")]).output


def test_wrong_data_is_named() -> None:
    for data, message in (
        ([], "no sequence to profile"),
        ({"train": [1]}, "one mapping of 'train'"),
        ([{"body": "x"}], "no column to measure among 'body'"),
        ([1.5], "cannot measure a float"),
    ):
        with pytest.raises(ValueError, match=message):
            LengthProfile.of(data)
    for lengths in ([-1], [1.5], None):
        with pytest.raises(ValueError, match="whole numbers of tokens"):
            LengthProfile.of_lengths(lengths)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no data to measure, got None"):
        LengthProfile.of(None)
    with pytest.raises(ValueError, match="limit must be at least 0, got -1"):
        LengthProfile.of([[1]], limit=-1)
    profile = LengthProfile.of_lengths([3, 5])
    for ask in (profile.tokens_lost, profile.rows_cut):
        with pytest.raises(ValueError, match="max_length must be at least 0 tokens, got -1"):
            ask(-1)
    for asked in (profile.quantile, profile.padded_share):
        with pytest.raises(ValueError, match="must be a number, got None"):
            asked(None)  # type: ignore[operator]
    with pytest.raises(ValueError, match="bars must be at least 1, got 0"):
        profile.histogram(0)


@pytest.mark.parametrize("missing", ["numpy", "rich", "datasets"])
def test_a_missing_package_is_one_line(missing: str, tmp_path: Path) -> None:
    saved = tmp_path / "data.parquet"
    saved.write_bytes(b"")
    program = (
        f"import sys, runpy; sys.modules[{missing!r}] = None; "
        f"sys.argv = ['lengths', {str(saved)!r}]; "
        "runpy.run_module('memlint_runtime.lengths', run_name='__main__', alter_sys=True)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert f"needs {missing}, which is not installed: pip install 'torch-memlint" in ended.stderr
