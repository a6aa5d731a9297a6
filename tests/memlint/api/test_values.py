"""Values of options, read off enumerations and comparisons of wheels."""

from __future__ import annotations

import textwrap
import zipfile
from pathlib import Path

import pytest

from memlint.api.extract.option_values import encode_values, values
from memlint.api.extract.wheels import releases
from memlint.api.lookup import Api
from memlint.api.tables import Table, table
from memlint.api.target_versions import newest

ARGUMENTS = """
class OptimizerNames(ExplicitEnum):
    SGD = "sgd"
    ADAMW_BNB = "adamw_bnb_8bit"

class TrainingArguments:
    def __post_init__(self):
        self.optim = OptimizerNames(self.optim)
        self.other = str(self.other)
"""
TRAINER = """
class DPOTrainer:
    def loss(self):
        if self.loss_type == "sigmoid":
            pass
        elif self.loss_type in ["ipo", "hinge"]:
            pass
        else:
            raise ValueError("Unknown loss type")
"""


def wheel(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "library-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, textwrap.dedent(text))
    return path


def test_enumerations_that_options_are_turned_into(tmp_path: Path) -> None:
    files = {"transformers/training_args.py": ARGUMENTS, "transformers/trainer_utils.py": ""}
    found = values("transformers", wheel(tmp_path, files))
    assert found == {"transformers.TrainingArguments.optim": ("sgd", "adamw_bnb_8bit")}


def test_losses_are_those_that_a_refusing_trainer_compares_with(tmp_path: Path) -> None:
    found = values("trl", wheel(tmp_path, {"trl/trainer/dpo_trainer.py": TRAINER}))
    assert found == {"trl.DPOConfig.loss_type": ("sigmoid", "ipo", "hinge")}
    lenient = TRAINER.replace('raise ValueError("Unknown loss type")', "pass")
    assert values("trl", wheel(tmp_path, {"trl/trainer/dpo_trainer.py": lenient})) == {}


def test_other_options_take_what_they_are_compared_with_before_an_error(tmp_path: Path) -> None:
    text = (
        TRAINER.replace("loss_type", "truncation_mode")
        + """
    def other(self):
        if self.truncation_mode == "quick":
            pass
"""
    )
    found = values("trl", wheel(tmp_path, {"trl/trainer/dpo_trainer.py": text}))
    assert found == {"trl.DPOConfig.truncation_mode": ("sigmoid", "ipo", "hinge")}


def test_what_the_configuration_renames_is_taken_and_what_it_refuses_is_not(
    tmp_path: Path,
) -> None:
    config = """
    class DPOConfig:
        def __post_init__(self):
            if self.loss_type == "older":
                self.loss_type = "ipo"
            if self.loss_type == "odd":
                self.loss_type = "gone"
            if self.loss_type == "hinge":
                raise ValueError("gone")
    """
    files = {"trl/trainer/dpo_trainer.py": TRAINER, "trl/trainer/dpo_config.py": config}
    found = values("trl", wheel(tmp_path, files))
    assert found == {"trl.DPOConfig.loss_type": ("sigmoid", "ipo", "older")}


def test_a_value_has_its_releases() -> None:
    data = encode_values(
        ["1.0.0", "1.1.0"], ["a", "b"], [{"x.y": ("old", "all")}, {"x.y": ("all",)}]
    )
    assert Table("x", data).record("x.y") == {"": "all", "0": "old"}


@pytest.mark.parametrize("package", ["transformers", "accelerate", "trl"])
def test_the_shipped_values_are_of_the_listed_releases(package: str) -> None:
    assert table(f"{package}_values").releases == tuple(releases()[package])


def test_choices_are_those_of_the_class_or_its_base() -> None:
    api = Api(newest())
    assert "paged_adamw_8bit" in (api.choices("trl.SFTConfig", "optim") or ())
    assert api.choices("trl.SFTConfig", "loss_type") == {"nll", "dft", "chunked_nll"}
    assert "INDUCTOR" in (api.choices("trl.SFTConfig", "torch_compile_backend") or ())
    assert api.choices("trl.SFTConfig", "run_name") is None
