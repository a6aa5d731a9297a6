"""The loss as a module, under torch's names and as torchtune's recipes call it; one `fuse`."""

from __future__ import annotations

import abc
import copy
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import LinearCrossEntropyLoss, fuse, fuse_causal_lm_loss, undo
from memlint_runtime.losses import cross_entropy
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

from tests.runtime.float64 import in_float64, judge
from tests.runtime.losses.models import VOCABULARY, tiny_batch, tiny_model
from tests.runtime.losses.plain import worst

datasets = pytest.importorskip("datasets")

HIDDEN = torch.randn(2, 9, 8, generator=torch.Generator().manual_seed(0))
WEIGHT = torch.randn(31, 8, generator=torch.Generator().manual_seed(1))
TARGET = torch.randint(0, 31, (2, 9), generator=torch.Generator().manual_seed(2))
TARGET[0, :4] = -100


@pytest.mark.parametrize(
    "options",
    [{}, {"reduction": "sum"}, {"label_smoothing": 0.2}, {"weight": torch.rand(31) + 0.1}],
    ids=["plain", "sum", "smoothed", "weighted"],
)
@pytest.mark.parametrize("bias", [False, True])
def test_under_torch_s_names(options: dict[str, Any], bias: bool) -> None:
    linear_bias = torch.randn(31) if bias else None
    leaves = [HIDDEN.clone().requires_grad_(), WEIGHT.clone().requires_grad_()]
    loss = LinearCrossEntropyLoss(**options)
    found = loss(input=leaves[0], linear_weight=leaves[1], target=TARGET, linear_bias=linear_bias)

    def plain(*leaves: Tensor) -> Any:
        bias = None if linear_bias is None else linear_bias.to(leaves[0])
        logits = nn.functional.linear(*leaves, bias).flatten(0, 1)
        loss = nn.CrossEntropyLoss(**options).to(logits)(logits, TARGET.flatten())
        return loss, torch.autograd.grad(loss, leaves)

    ours = found, torch.autograd.grad(found, leaves)
    judge(ours, plain(*leaves), in_float64(plain, *leaves))


class Recipe(nn.Module):
    """A decoder as torchtune's recipes have it."""

    def __init__(self) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(31, 8)
        self.output = nn.Linear(8, 31, bias=False)
        self.skip_output_layer = False

    def forward(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self.tok_embeddings(tokens).tanh()
        return hidden if self.skip_output_layer else self.output(hidden)


def test_as_a_recipe_s_loss() -> None:
    torch.manual_seed(0)
    model = Recipe()
    tokens = torch.randint(0, 31, (2, 9))

    def plain(model: Any) -> Tensor:
        return nn.functional.cross_entropy(model(tokens).flatten(0, 1), TARGET.flatten())

    expected = plain(model), in_float64(plain, model)
    loss = LinearCrossEntropyLoss()
    with pytest.raises(ValueError, match="set_model_output"):
        loss(model(tokens), TARGET)
    loss.set_model_output(model)
    assert not list(loss.parameters())
    found = loss(model(tokens), TARGET)
    judge(found, *expected)
    found.backward()
    assert model.output.weight.grad is not None
    with pytest.raises(ValueError, match=r"`output` and .* got Linear"):
        loss.set_model_output(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="do not go together"):
        LinearCrossEntropyLoss(weight=torch.ones(3), label_smoothing=0.1)


class Tied:
    """A tied head as torchtune has it: no module itself, with a layer that it calls."""

    class Product(nn.Module):
        def forward(self, hidden: Tensor, weight: Tensor) -> Tensor:
            return nn.functional.linear(hidden, weight)

    def __init__(self, embedding: nn.Embedding) -> None:
        self.tied_module = embedding
        self.linear = Tied.Product()

    def __call__(self, hidden: Tensor) -> Tensor:
        product: Tensor = self.linear(hidden, self.tied_module.weight)
        return product


class ChunkedRecipe(nn.Module):
    """A decoder as torchtune had it up to 0.6: nothing but its head can be asked for less."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(31, 8)
        self.output: Any = Tied(self.tok_embeddings) if tied else nn.Linear(8, 31, bias=False)
        self.num_output_chunks = 4

    def chunked_output(self, hidden: Tensor) -> list[Tensor]:
        return [self.output(part) for part in hidden.chunk(self.num_output_chunks, 1)]

    def forward(self, tokens: Tensor) -> Any:
        hidden: Tensor = self.tok_embeddings(tokens).tanh()
        if self.num_output_chunks:
            return self.chunked_output(hidden)
        return self.output(hidden).float()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tied", [False, True])
def test_as_the_loss_of_a_recipe_without_an_option_for_it(tied: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = ChunkedRecipe(tied).to(dtype)
    tokens = torch.randint(0, 31, (2, 9))

    def plain(model: Any) -> Tensor:
        logits = torch.cat([part.float() for part in model(tokens)], 1)
        return nn.functional.cross_entropy(logits.flatten(0, 1), TARGET.flatten())

    expected, truth = plain(model), in_float64(plain, model)
    loss = LinearCrossEntropyLoss()
    loss.set_model_output(model)
    loss.set_model_output(model)  # as a notebook's cell that is run again
    hidden = model(tokens)
    assert hidden.shape == (2, 9, 8)
    # The recipe flattens what it takes for logits.
    found = loss(hidden.reshape(-1, 8), TARGET.reshape(-1))
    if dtype == torch.float32:
        judge(found, expected, truth)
    else:
        assert worst(found, expected) < 2e-2
    found.backward()
    assert model.tok_embeddings.weight.grad is not None
    copied = copy.deepcopy(model)
    undo(model)
    assert [part.shape[-1] for part in model(tokens)] == [31] * 3
    assert copied(tokens).shape == (2, 9, 8)


def test_torchtune_s_recipes_know_it_for_a_loss_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = types.ModuleType("torchtune.modules.loss")
    interface = abc.ABCMeta("SFTLoss", (abc.ABC,), {})
    vars(theirs)["SFTLoss"] = interface
    assert not isinstance(LinearCrossEntropyLoss(), interface)
    monkeypatch.setitem(sys.modules, theirs.__name__, theirs)
    loss = LinearCrossEntropyLoss()
    assert isinstance(loss, interface)
    assert loss.apply_compile_strategy(backend="inductor") is loss


def trainer_of(folder: Path, **options: Any) -> Trainer:
    rows = [
        {"input_ids": ids.tolist(), "labels": ids.tolist()} for ids in tiny_batch(8)["input_ids"]
    ]
    special = {name: options.pop(name) for name in ("compute_metrics", "compute_loss_func")
               if name in options}  # fmt: skip
    args = TrainingArguments(
        str(folder), max_steps=2, per_device_train_batch_size=4, report_to="none", use_cpu=True,
        bf16=False, save_strategy="no", logging_steps=1, dataloader_pin_memory=False, **options,
    )  # fmt: skip
    data = datasets.Dataset.from_list(rows)
    return Trainer(tiny_model(), args, train_dataset=data, eval_dataset=data, **special)


def losses(trainer: Trainer) -> list[float]:
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_fuse_a_trainer(tmp_path: Path) -> None:
    plain = trainer_of(tmp_path)
    expected, evaluated = losses(plain), plain.evaluate()["eval_loss"]
    trainer = trainer_of(tmp_path, compute_metrics=lambda p: {"width": p.predictions.shape[-1]})
    shapes: list[int] = []
    with fuse(trainer):
        assert losses(trainer) == pytest.approx(expected, rel=1e-5)
        found = trainer.evaluate()
        assert found["eval_width"] == VOCABULARY
        assert found["eval_loss"] == pytest.approx(evaluated, rel=1e-5)
        assert trainer.predict(trainer.eval_dataset).predictions.shape[-1] == VOCABULARY
        trainer.compute_metrics = None
        trainer.model.lm_head.register_forward_hook(_Note(shapes))
        assert trainer.evaluate()["eval_loss"] == pytest.approx(evaluated, rel=1e-5)
    # The loss alone was wanted: statistics, not logits.
    assert set(shapes) == {3}
    assert "prediction_step" not in vars(trainer)


class _Note:
    """A hook of a library that shards, for all that fuse can know."""

    __module__ = "torch.emulated"

    def __init__(self, shapes: list[int]) -> None:
        self.shapes = shapes

    def __call__(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        self.shapes.append(output.shape[-1])


class _ReadsLogits(Trainer):
    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = model(**inputs)
        return outputs.loss + outputs.logits.float().mean()


def test_a_loss_of_the_trainers_own_that_reads_logits_is_told_of_them(tmp_path: Path) -> None:
    whole = trainer_of(tmp_path)
    trainer = _ReadsLogits(whole.model, whole.args, train_dataset=whole.train_dataset)
    with fuse(trainer), pytest.raises(AttributeError) as caught:
        trainer.train()
    assert "outputs.logits is None" in caught.value.__notes__[0]
    assert "compute_loss" not in vars(trainer)


@pytest.mark.parametrize("owner", [None, "model", Trainer, nn.Linear], ids=str)
def test_what_is_neither_model_nor_trainer_is_refused(owner: Any) -> None:
    with pytest.raises(TypeError, match="wants a model or a constructed trainer, got"):
        fuse(owner)
    if owner is not Trainer:
        with pytest.raises(TypeError, match="wants the model or trainer that was changed, got"):
            undo(owner)


NAN = float("nan")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reduction": "avg"}, "reduction is 'mean', 'sum' or 'none', got 'avg'"),
        ({"label_smoothing": 1.5}, "label_smoothing is a share from 0 to 1, got 1.5"),
        ({"label_smoothing": NAN}, "label_smoothing is a share from 0 to 1, got nan"),
        ({"z_loss": -1.0}, "z_loss is a finite weight of 0 or more, got -1.0"),
        ({"z_loss": NAN}, "z_loss is a finite weight"),
        ({"softcap": NAN}, "temperature and softcap are positive"),
        ({"logit_scale": NAN}, "logit_scale is a finite number, got nan"),
        ({"ignore_index": None}, "ignore_index is a whole number"),
        ({"workspace_bytes": -3}, "workspace_bytes must be at least 1, got -3"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearCrossEntropyLoss(**options)
    if "workspace_bytes" not in options:
        with pytest.raises(ValueError, match=message):
            cross_entropy(HIDDEN, WEIGHT, TARGET, **options)
    if "label_smoothing" in options or "z_loss" in options or "workspace_bytes" in options:
        with pytest.raises(ValueError, match=message):
            fuse_causal_lm_loss(tiny_model(), **options)


@pytest.mark.parametrize("shape", [(12,), (40,), (31, 1)], ids=str)
def test_a_class_weight_is_of_every_class(shape: tuple[int, ...]) -> None:
    loss = LinearCrossEntropyLoss(weight=torch.ones(shape))
    with pytest.raises(ValueError, match=r"each of the head's 31 classes, \[31\], got"):
        loss(HIDDEN, WEIGHT, TARGET)


def supervised(
    folder: Path, compute_loss_func: Any = None, kind: Any = None, **options: Any
) -> Any:
    from trl import SFTConfig, SFTTrainer

    from tests.runtime.losses.training import tiny_tokenizer

    args = SFTConfig(str(folder), report_to="none", use_cpu=True, bf16=False, **options)
    data = datasets.Dataset.from_list([{"input_ids": [1, 2, 3], "labels": [1, 2, 3]}])
    return (kind or SFTTrainer)(
        tiny_model(), args, train_dataset=data, processing_class=tiny_tokenizer(),
        compute_loss_func=compute_loss_func,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:`.*` is deprecated:FutureWarning")
@pytest.mark.parametrize("calls_super", [False, True])
def test_a_loss_that_goes_past_trls_fused_head_is_told(calls_super: bool, tmp_path: Path) -> None:
    from trl import SFTTrainer

    class Distilled(SFTTrainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if calls_super:
                return super().compute_loss(model, inputs, *args, **kwargs)
            return model(input_ids=inputs["input_ids"]).logits.float().logsumexp(-1).mean()

    trainer = supervised(tmp_path, kind=Distilled, max_steps=2, per_device_train_batch_size=1)
    with fuse(trainer), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train()
    told = [str(each.message) for each in caught if "fuse saves nothing" in str(each.message)]
    assert len(told) == (0 if calls_super else 1)
    assert all("in Distilled.compute_loss, which goes past" in text for text in told)


@pytest.mark.filterwarnings("ignore:`.*` is deprecated:FutureWarning")
def test_one_trainer_is_fused_and_not_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl.trainer import utils

    calls: list[str] = []
    own = utils._ChunkedLogProbFunction.apply
    chunked = utils._ChunkedLogProbFunction
    monkeypatch.setattr(chunked, "apply", lambda *given: calls.append("trl") or own(*given))
    options = {"max_steps": 1, "per_device_train_batch_size": 1, "loss_type": "chunked_nll"}
    ours, theirs = (supervised(tmp_path / name, **options) for name in ("a", "b"))
    with fuse(ours):
        ours.train()
        assert calls == []
        theirs.train()
        assert calls == ["trl"]
        with fuse(theirs):
            supervised_again = len(calls)
            theirs.train()
            assert len(calls) == supervised_again
    assert utils._ChunkedLogProbFunction is chunked
    assert not {"train", "compute_loss"} & {*vars(ours), *vars(theirs)}


# TRL's own defaults use names that transformers has deprecated.
@pytest.mark.filterwarnings("ignore:`.*` is deprecated:FutureWarning")
def test_fuse_refuses_what_would_pass_it_by(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="by itself with label_smoothing_factor"):
        fuse(trainer_of(tmp_path, label_smoothing_factor=0.1))
    with pytest.raises(ValueError, match="by itself with compute_loss_func"):
        fuse(trainer_of(tmp_path, compute_loss_func=lambda *_, **__: None))
    with pytest.raises(ValueError, match="wants a transformers causal LM"):
        fuse(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="SFTTrainer computes its loss by itself with label_sm"):
        fuse(supervised(tmp_path, label_smoothing_factor=0.1))
    with pytest.raises(ValueError, match="SFTTrainer computes its loss by itself with compute_l"):
        fuse(supervised(tmp_path, compute_loss_func=lambda *_, **__: None))
    model = tiny_model()
    with fuse(model):
        assert model(**tiny_batch()).logits is None


@pytest.mark.parametrize("ignored", [-100, -7, 3])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_negative_target_that_is_not_ignored_is_refused_as_by_torch(
    ignored: int, reduction: Any
) -> None:
    hidden, weight = torch.randn(4, 8), torch.randn(10, 8)
    target = torch.tensor([1, ignored, 2, 5])
    plain = torch.nn.functional.cross_entropy(
        hidden @ weight.T, target, ignore_index=ignored, reduction=reduction
    )
    options: Any = {"ignore_index": ignored, "reduction": reduction}
    torch.testing.assert_close(cross_entropy(hidden, weight, target, **options), plain)
    target[2] = -1
    with pytest.raises(ValueError, match=f"token ids or ignore_index, {ignored}, got -1"):
        cross_entropy(hidden, weight, target, **options)
    with pytest.raises(ValueError, match="got -1"):
        LinearCrossEntropyLoss(**options)(weight, hidden, target)


def test_an_unknown_argument_is_said_to_be_the_losss() -> None:
    with pytest.raises(TypeError, match=r"cross_entropy\(\) got .* argument 'soft_cap'"):
        cross_entropy(torch.randn(4, 8), torch.randn(10, 8), torch.zeros(4).long(), soft_cap=30.0)
