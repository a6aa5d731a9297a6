"""Prompts cut in TRL's trainers, by every form of row, against what TRL's own option did."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from memlint_runtime import limit_prompts

from tests.runtime.shared_prompt.models import tiny
from tests.runtime.shared_prompt.training import WORDS, tokenizer

datasets = pytest.importorskip("datasets")
trl = pytest.importorskip("trl")

pytestmark = [
    pytest.mark.filterwarnings("ignore:`.*` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:trl"),
    pytest.mark.filterwarnings("ignore:.*experimental:UserWarning"),
]

LONG, SHORT = " ".join(WORDS[:30]), " ".join(WORDS[:4])
GOOD, BAD = " ".join(WORDS[40:46]), " ".join(WORDS[50:53])
LIMIT = 12


def words(count: int, first: int = 0) -> list[int]:
    return list(range(3 + first, 3 + first + count))


def chatting() -> Any:
    made = tokenizer()
    made.chat_template = (
        "{% for m in messages %}{% if m.role == 'user' %}w58 {{ m.content }} {% else %}w59 "
        "{{ m.content }} </s> {% endif %}{% endfor %}"
        "{% if add_generation_prompt %}w59 {% endif %}"
    )
    return made


def said(role: str, text: str) -> list[dict[str, str]]:
    return [{"role": role, "content": text}]


def rows_of(form: str) -> dict[str, list[Any]]:
    """Two rows, of which the first's prompt is beyond the limit."""
    prompts = [LONG, SHORT]
    if form == "explicit":
        return {
            "prompt": prompts,
            "chosen": [" " + GOOD] * 2,
            "rejected": [" " + BAD] * 2,
        }
    if form == "implicit":
        return {
            "chosen": [f"{prompt} {GOOD}" for prompt in prompts],
            "rejected": [f"{prompt} {BAD}" for prompt in prompts],
        }
    asked = [said("user", prompt) for prompt in prompts]
    good, bad = said("assistant", GOOD), said("assistant", BAD)
    if form == "conversation":
        return {"prompt": asked, "chosen": [good] * 2, "rejected": [bad] * 2}
    return {
        "chosen": [prompt + good for prompt in asked],
        "rejected": [prompt + bad for prompt in asked],
    }


FORMS = ["explicit", "implicit", "conversation", "implicit conversation"]


def prompt_ids(form: str) -> list[list[int]]:
    """Tokens of the two prompts, uncut."""
    found = []
    for count in (30, 4):
        ids = words(count)
        found.append([61, *ids, 62] if "conversation" in form else ids)
    return found


def settings(config: Any, folder: Path, **options: Any) -> Any:
    return config(
        output_dir=str(folder), per_device_train_batch_size=2, max_steps=1, report_to="none",
        use_cpu=True, bf16=False, save_strategy="no", logging_steps=1, **options,
    )  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_dpo(form: str, tmp_path: Path) -> None:
    def made(**limits: Any) -> Any:
        kind = limit_prompts(trl.DPOTrainer, **limits) if limits else trl.DPOTrainer
        return kind(
            tiny("llama"), tiny("llama"), args=settings(trl.DPOConfig, tmp_path, max_length=24),
            train_dataset=datasets.Dataset.from_dict(rows_of(form)), processing_class=chatting(),
        )  # fmt: skip

    plain, trainer = made(), made(max_prompt_length=LIMIT)
    # Without the limit TRL drops the long row, whose prompt alone fills max_length.
    assert len(plain.train_dataset) == 1
    assert trainer.train_dataset["prompt_ids"][:] == [ids[-LIMIT:] for ids in prompt_ids(form)]
    for side in ("chosen_ids", "rejected_ids"):
        assert trainer.train_dataset[side][:] == [plain.train_dataset[0][side]] * 2
    trainer.train()
    cut = made(max_prompt_length=LIMIT, max_completion_length=2)
    assert [len(ids) for ids in cut.train_dataset["chosen_ids"]] == [2, 2]
    start = made(max_prompt_length=LIMIT, keep="start")
    assert start.train_dataset["prompt_ids"][:] == [ids[:LIMIT] for ids in prompt_ids(form)]


@pytest.mark.parametrize("form", FORMS)
def test_kto(form: str, tmp_path: Path) -> None:
    kind = limit_prompts(trl.KTOTrainer, LIMIT)
    trainer = kind(
        tiny("llama"), tiny("llama"), args=settings(trl.KTOConfig, tmp_path, max_length=24),
        train_dataset=datasets.Dataset.from_dict(rows_of(form)), processing_class=chatting(),
    )  # fmt: skip
    # One row of each side; the short prompt is within max_length with its completion.
    long, short = prompt_ids(form)
    data = trainer.train_dataset
    assert sorted(data["prompt_ids"][:]) == sorted([long[-LIMIT:], short] * 2)
    completions = data["completion_ids"][:]
    assert data["KL_completion_ids"][:2] == [completions[1], completions[0]]
    trainer.train()


@pytest.mark.parametrize("name", ["ORPO", "CPO"])
@pytest.mark.parametrize("form", FORMS)
def test_orpo_and_cpo(name: str, form: str, tmp_path: Path) -> None:
    experimental = pytest.importorskip(f"trl.experimental.{name.lower()}")
    config = getattr(experimental, f"{name}Config")
    trainer_class = getattr(experimental, f"{name}Trainer")

    def made(kind: Any, max_length: int) -> Any:
        return kind(
            tiny("llama"), args=settings(config, tmp_path, max_length=max_length),
            train_dataset=datasets.Dataset.from_dict(rows_of(form)), processing_class=chatting(),
        )  # fmt: skip

    whole = made(trainer_class, 64).train_dataset
    limited = made(limit_prompts(trainer_class, LIMIT), 24)
    cut = limited.train_dataset
    for side in ("chosen", "rejected"):
        prompt = whole[0][f"{side}_labels"].count(-100)
        expected = whole[0][f"{side}_input_ids"][prompt - LIMIT :]
        assert cut[0][f"{side}_input_ids"] == expected
        assert cut[0][f"{side}_labels"][:LIMIT] == [-100] * LIMIT
        assert cut[0][f"{side}_labels"][LIMIT:] == expected[LIMIT:]
        assert cut[1][f"{side}_input_ids"] == whole[1][f"{side}_input_ids"]
    limited.train()
    # Rows that fit keep their prompts whole, however long: as the option did.
    fits = made(limit_prompts(trainer_class, LIMIT), 64).train_dataset
    assert fits["chosen_input_ids"][:] == whole["chosen_input_ids"][:]
    # What is still too long loses the end of its completion.
    short = made(limit_prompts(trainer_class, LIMIT), 15).train_dataset
    assert next(len(ids) for ids in short["chosen_input_ids"]) == 15


@pytest.mark.parametrize("kind", ["GRPO", "RLOO"])
@pytest.mark.parametrize("conversational", [False, True])
def test_online(kind: str, conversational: bool, tmp_path: Path) -> None:
    prompts = [LONG, SHORT]
    rows = [said("user", prompt) for prompt in prompts] if conversational else prompts
    config = settings(
        getattr(trl, f"{kind}Config"),
        tmp_path,
        num_generations=2,
        max_completion_length=4,
        beta=0.0,
    )
    trainer = limit_prompts(getattr(trl, f"{kind}Trainer"), LIMIT)(
        tiny("llama"), reward_funcs=lambda completions, **_: [float(len(c)) for c in completions],
        args=config, processing_class=chatting(),
        train_dataset=datasets.Dataset.from_dict({"prompt": rows}),
    )  # fmt: skip
    ids, _, _ = trainer._tokenize_prompts(rows)
    form = "conversation" if conversational else "explicit"
    assert ids == [one[-LIMIT:] for one in prompt_ids(form)]
    trainer.train()


def test_subclasses_keep_what_they_are() -> None:
    class Mine(trl.DPOTrainer):  # type: ignore[name-defined, misc]
        pass

    limited = limit_prompts(Mine, 8)
    assert issubclass(limited, Mine)
    assert limited.__name__ == "Mine"
    assert limit_prompts(Mine, None) is Mine


def test_wrong_use_is_named() -> None:
    with pytest.raises(ValueError, match=r"takes the class of a TRL trainer .* got SFTTrainer"):
        limit_prompts(trl.SFTTrainer, 8)
    with pytest.raises(ValueError, match="got SimpleNamespace"):
        limit_prompts(SimpleNamespace(), 8)  # type: ignore[type-var]
    with pytest.raises(ValueError, match="max_prompt_length must be at least 1 token, got 0"):
        limit_prompts(trl.DPOTrainer, 0)
    with pytest.raises(ValueError, match=r"max_prompt_length must be a whole number, got 8\.5"):
        limit_prompts(trl.DPOTrainer, 8.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='"start" or "end"'):
        limit_prompts(trl.DPOTrainer, 8, keep="left")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a limit of DPO's, got GRPOTrainer"):
        limit_prompts(trl.GRPOTrainer, 8, max_completion_length=8)

    class Newer(trl.GRPOTrainer):  # type: ignore[name-defined, misc]
        __module__ = "trl.trainer.newer"

        def _tokenize_prompts(self, rows: Any) -> Any: ...

    with pytest.raises(RuntimeError, match=r"relies on _tokenize_prompts\(self, prompts\)"):
        limit_prompts(Newer, 8)
