"""Options as a configuration leaves them, against the installed libraries and by hand."""

from __future__ import annotations

import ast
import dataclasses
import textwrap
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from memlint.api.extract.settling import settling
from memlint.api.lookup import Api
from memlint.api.settled import OPEN, settle
from memlint.api.target_versions import parse_target


def _cut(body: str) -> str:
    text = f"class Config:\n def __post_init__(self):\n{textwrap.indent(body, '  ')}"
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.ClassDef)
    return settling(node)


def _settled(body: str, **given: object) -> dict[str, object]:
    return settle([_cut(body)], lambda name: given.get(name, OPEN))


@pytest.mark.parametrize(
    ("body", "given", "settled"),
    [
        ("self.a = 1 if self.b is None else self.b", {"b": None}, {"a": 1}),
        ("self.a = 1 if self.b is None else self.b", {"b": 4}, {"a": 4}),
        ("self.a = 1 if self.b is None else self.b", {}, {"a": OPEN}),
        (
            "if self.b == 'x':\n self.a = 1\nelif self.b in ('z',):\n self.a = 2",
            {"b": "z"},
            {"a": 2},
        ),
        ("if probe():\n self.a = 1", {"a": 1}, {"a": 1}),
        ("if probe():\n self.a = 1", {"a": 2}, {"a": OPEN}),
        ("if probe() and self.b:\n self.a = 1", {"a": 2, "b": False}, {}),
        ("if probe() or self.b:\n self.a = 1", {"a": 2, "b": True}, {"a": 1}),
        ("self.a = Words(self.a)", {"a": "x"}, {}),
        ("self.a = self.a.value", {"a": "x"}, {}),
        ("self.a = compute(self.b)", {"a": "x", "b": 1}, {"a": OPEN}),
        ("for name in self.b:\n self.a = name", {"a": "x", "b": "y"}, {"a": OPEN}),
        ("self.a.setdefault('k', 1)", {"a": {}}, {"a": OPEN}),
        ("if len(self.a) == 1:\n self.a = self.a[0]", {"a": ["x"]}, {"a": "x"}),
        ("if len(self.a) == 1:\n self.a = self.a[0]", {"a": ["x", "y"]}, {}),
        ("if self.b:\n raise ValueError\nself.a = 1", {"b": OPEN}, {"a": 1}),
    ],
)
def test_a_body_is_cut_and_evaluated(
    body: str, given: dict[str, object], settled: dict[str, object]
) -> None:
    assert _settled(body, **given) == settled


def test_base_classes_have_their_turn_where_they_are_called() -> None:
    own = _cut("self.a = 1\nsuper().__post_init__()\nself.c = self.b")
    base = _cut("self.b = self.a")
    assert settle([own, base], lambda name: OPEN) == {"a": 1, "b": 1, "c": 1}
    silent = _cut("self.a = 1")
    assert settle([silent, base], lambda name: OPEN) == {"a": 1}


@pytest.mark.parametrize(
    ("version", "given", "loss"),
    [
        ("1.3", {}, "nll"),
        ("1.6", {}, "nll"),
        ("1.7", {}, "chunked_nll"),
        ("1.14", {}, "chunked_nll"),
        ("1.14", {"use_liger_kernel": True}, "nll"),
        ("1.14", {"loss_type": "dft"}, "dft"),
        ("1.15", {}, "nll"),
        ("1.16", {"loss_type": "chunked_nll"}, "nll"),
    ],
)
def test_the_loss_of_each_release(version: str, given: dict[str, object], loss: str) -> None:
    api = Api(parse_target(f"trl={version},transformers=5.23"))
    signature = api.signature("trl.SFTConfig")
    assert signature is not None
    parameters = signature.parameters

    def read(name: str) -> object:
        if name in given:
            return given[name]
        return parameters[name].default if name in parameters else OPEN

    assert api.settle("trl.SFTConfig", read).get("loss_type", read("loss_type")) == loss


_VARIED: dict[str, tuple[object, ...]] = {
    "bf16": (None, True, False),
    "fp16": (True, False),
    "loss_type": ("nll", "chunked_nll", "sigmoid", ["sigmoid"]),
    "packing_strategy": ("bfd", "bfd-requeue"),
    "scale_rewards": (True, "none"),
    "steps_per_generation": (None, 8),
    "adafactor": (True, False),
    "torch_compile_mode": (None, "default"),
}


@pytest.mark.draws(2)
@pytest.mark.parametrize(
    "name", ["SFTConfig", "DPOConfig", "GRPOConfig", "KTOConfig", "RewardConfig", "RLOOConfig"]
)
@pytest.mark.filterwarnings("ignore")
def test_equal_to_the_installed_configuration(name: str, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    transformers = pytest.importorskip("transformers")
    cls = getattr(trl, name)
    api = Api(parse_target(f"trl={trl.__version__},transformers={transformers.__version__}"))
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    varied = [option for option in _VARIED if option in defaults]
    compared = 0
    for option, other in product(varied, varied):
        for value, second in product(_VARIED[option], _VARIED[other]):
            given: dict[str, Any] = {option: value, other: second, "use_cpu": True}
            try:
                made = cls(str(tmp_path), **given)
            except (ValueError, TypeError):
                continue
            options = {**defaults, **given}
            settled = api.settle(f"trl.{name}", lambda name, known=options: known.get(name, OPEN))
            for assigned, expected in settled.items():
                if expected is not OPEN:
                    assert getattr(made, assigned) == expected, (given, assigned)
                    compared += 1
    assert compared > 20
