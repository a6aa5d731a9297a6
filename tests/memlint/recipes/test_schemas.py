"""Keys of recipes in each release: what is known, removed, replaced and looks alike."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from memlint.api.extract.recipe_schemas import PACKAGES, Schema, encode_schemas, read_schema
from memlint.api.extract.wheels import FLOORS, released, releases
from memlint.api.tables import Table, table
from memlint.recipes.schemas import (
    added_in,
    component_keys,
    known_keys,
    nearest_component,
    removed_in,
    replacement,
)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("torchtune", {"dtype", "optimizer_in_bwd", "enable_activation_offloading", "compile"}),
        ("llamafactory", {"cutoff_len", "neat_packing", "lora_rank", "flash_attn", "stage"}),
        ("axolotl", {"sequence_len", "sample_packing", "gradient_checkpointing", "liger_rope"}),
    ],
)
def test_keys_that_every_user_knows(kind: str, keys: set[str]) -> None:
    known = known_keys(kind)
    assert keys <= known.names
    assert known.version == table(kind).releases[-1]


def test_a_kind_may_be_called_as_its_users_call_it() -> None:
    assert known_keys("LLaMA-Factory") == known_keys("llamafactory")


def test_llama_factory_takes_the_options_of_transformers_too() -> None:
    known = known_keys("llamafactory")
    assert known.inherits == ("transformers.Seq2SeqTrainingArguments",)
    assert "compute_dtype" not in known  # set by the program, refused in a recipe


def test_what_axolotl_warns_of_and_refuses() -> None:
    known = known_keys("axolotl", "0.19.0")
    assert {"flash_attention", "evaluation_strategy"} <= known.deprecated
    assert {"max_packed_sequence_len", "s2_attention"} <= known.refused
    assert known.refused <= known.names


@pytest.mark.parametrize(
    ("kind", "version", "key", "expected"),
    [
        ("axolotl", "0.19.0", "unsloth_lora_mlp", "0.17.0"),
        ("axolotl", "0.16.1", "unsloth_lora_mlp", None),
        ("axolotl", "0.19.0", "nonsense", None),
        ("llamafactory", "0.9.4", "use_cache", "0.9.4"),
        ("llamafactory", "0.9.3", "use_cache", None),
        ("llamafactory", None, "dpo_beta", "0.8.0"),
    ],
)
def test_removed_keys(kind: str, version: str | None, key: str, expected: str | None) -> None:
    assert removed_in(kind, version, key) == expected


def test_keys_that_come_later() -> None:
    assert added_in("llamafactory", "0.9.1", "media_dir") == "0.9.2"
    assert added_in("llamafactory", "0.9.2", "media_dir") is None


@pytest.mark.parametrize(
    ("kind", "version", "key", "expected"),
    [
        ("axolotl", "0.19.0", "evaluation_strategy", "eval_strategy"),
        ("axolotl", "0.19.0", "xformers_attention", "attn_implementation: xformers"),
        ("axolotl", "0.5.2", "xformers_attention", ""),
        ("llamafactory", "0.9.5", "dpo_beta", "pref_beta"),
        ("llamafactory", "0.7.1", "dpo_beta", ""),
        ("llamafactory", None, "cutoff_len", ""),
    ],
)
def test_replacements(kind: str, version: str | None, key: str, expected: object) -> None:
    assert replacement(kind, version, key) == expected


def test_a_replacement_is_a_key_of_its_release() -> None:
    for kind in ("torchtune", "llamafactory", "axolotl"):
        for version in table(kind).releases:
            known = known_keys(kind, version)
            for key in known.names:
                new = replacement(kind, version, key)
                assert not new or re.split("[.:]", new)[0] in known, (kind, version, key)


def test_versions_between_releases() -> None:
    def version(text: str) -> str:
        known = known_keys("llamafactory", text)
        return known.version

    assert [version(text) for text in ("0.1.0", "0.8.9", "0.9.2.dev0", "9.0")] == [
        "0.7.1", "0.8.3", "0.9.1", "0.9.5",
    ]  # fmt: skip


# -- torchtune ------------------------------------------------------------------------------------


def test_components_and_their_parameters() -> None:
    lora = component_keys("torchtune.models.llama3.lora_llama3_8b", "0.6.1")
    assert lora is not None
    assert {"lora_rank", "apply_lora_to_output", "quantize_base"} <= lora.names
    assert not lora.is_open
    assert component_keys("torchtune.models.llama3.qlora_llama3_8b", "0.6.1") == lora  # a partial
    assert component_keys("torchtune.models.llama9.x") is None
    assert component_keys("keys") is None
    assert component_keys("notes") is None
    assert component_keys("recipe lora_finetune_single_device") is None


def test_a_component_has_several_paths() -> None:
    short = component_keys("torchtune.training.FullModelHFCheckpointer", "0.6.1")
    long = component_keys("torchtune.training.checkpointing.FullModelHFCheckpointer", "0.6.1")
    assert short is not None
    assert short == long


def test_a_component_that_moved() -> None:
    old = "torchtune.utils.FullModelHFCheckpointer"
    assert component_keys(old, "0.2.1") is not None
    assert component_keys(old, "0.6.1") is None
    assert nearest_component(old, "0.6.1") == "torchtune.training.FullModelHFCheckpointer"


# -- tables ---------------------------------------------------------------------------------------


def test_the_tables_hold_the_listed_releases_and_are_small() -> None:
    folder = Path(table.__wrapped__.__code__.co_filename).parent / "data"
    for package in PACKAGES:
        assert package in FLOORS
        assert table(package).releases == tuple(releases()[package])
    assert sum((folder / f"{package}.table").stat().st_size for package in PACKAGES) < 200_000


_AXOLOTL = {
    "axolotl/utils/schemas/config.py": """
class Data(BaseModel):
    path: str
class AxolotlInputConfig(Old, BaseModel):
    datasets: list[Data] | None = None
    kept: int = 1
    gone_soon: bool = Field(default=None, deprecated="Use `kept: 2` instead.")
    model_kwargs_: dict = Field(alias="model_kwargs")
    @field_validator("gone")
    def gone_(cls, value):
        raise DeprecationWarning("`gone` is no longer supported")
""",
    "axolotl/utils/schemas/old.py": """
class Old(BaseModel):
    gone: int
    old: int
    @field_validator("old")
    def old_(cls, value):
        LOG.warning("old is deprecated, use kept instead")
""",
    "axolotl/integrations/liger/args.py": "class LigerArgs(BaseModel):\n    liger_rope: bool\n",
    "axolotl/utils/schemas/internal/__init__.py": "class AxolotlInputConfig:\n    hidden: int\n",
}


def _wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            archive.writestr(zipfile.ZipInfo(member, (2026, 1, 2, 0, 0, 0)), text)
    return path


def _source(folder: Path, name: str, files: dict[str, str]) -> Path:
    path = folder / name
    with tarfile.open(path, "w:gz") as tar:
        for member, text in files.items():
            info = tarfile.TarInfo(f"axolotl-1.0.0/src/{member}")
            info.size, info.mtime = len(text), 1767355200
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def _content(schema: Schema) -> tuple[object, ...]:
    return (schema.sections, schema.replaced, schema.deprecated, schema.refused)


def test_a_schema_of_models(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, "axolotl-1.0.0-py3-none-any.whl", _AXOLOTL)
    source = _source(tmp_path, "axolotl-1.0.0.tar.gz", _AXOLOTL)
    schema = read_schema("axolotl", "1.0.0", wheel)
    assert schema.sections == {
        "keys": {
            *("datasets", "kept", "gone_soon", "model_kwargs_", "model_kwargs", "gone", "old"),
            "liger_rope",
        },
        "keys datasets": {"path"},
    }
    assert schema.replaced == {"gone_soon": "kept=2", "old": "kept"}
    assert schema.deprecated == {"gone_soon", "old"}
    assert schema.refused == {"gone"}
    assert _content(read_schema("axolotl", "1.0.0", source)) == _content(schema)
    assert released(wheel) == released(source) == "2026-01-02"


def test_what_comes_and_goes() -> None:
    old, new = Schema(), Schema()
    old.sections["keys"] = {"a", "b"}
    new.sections["keys"] = {"b", "c"}
    data = encode_schemas(["1.0.0", "1.1.0"], ["2026-01-01", "2026-02-01"], [old, new])
    assert Table("t", data).record("keys") == {
        "at": "0-", "keys": {"": "b", "0": "a", "1-": "c"},
    }  # fmt: skip
