"""Extraction, on wheels small enough to see what must come out."""

from __future__ import annotations

import json
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memlint.api.extract.build import read
from memlint.api.extract.recipe_schemas import PACKAGES as SCHEMA_PACKAGES
from memlint.api.extract.tabulate import encode
from memlint.api.extract.wheels import FLOORS, fetch, released, releases
from memlint.api.records import parameters
from memlint.api.tables import PACKAGES, Table, table

_FIRST = {
    "trl/__init__.py": """
        from typing import TYPE_CHECKING
        from ._lazy import _LazyModule
        _import_structure = {"config": ["Config", "OldConfig"], "trainer": ["Trainer"]}
        try:
            probe()
        except ImportError:
            pass
        else:
            _import_structure["trainer"].extend(["Extra"])
            _import_structure["config"].append("LIMIT")
        if TYPE_CHECKING:
            from .config import Config, NeverAtRunTime
        else:
            import sys
            sys.modules[__name__] = _LazyModule(__name__, "", _import_structure)
        """,
    "trl/config.py": """
        import warnings
        from dataclasses import dataclass, field
        from enum import Enum
        from typing import ClassVar, Optional
        from transformers import TrainingArguments

        LIMIT = 2 ** 4
        class Strategy(str, Enum):
            NO = "no"

        @dataclass
        class Config(TrainingArguments):
            registry: ClassVar[dict] = {}
            output_dir: Optional[str] = None
            limit: int = LIMIT
            share: float = 1 / 4
            names: list = field(default_factory=list)
            pair: tuple = (1, LIMIT)
            strategy: Strategy = Strategy.NO
            old: Optional[int] = field(default=None, metadata={"help": "Deprecated. Use `limit`."})
            gone: Optional[int] = None
            mode: str = "a"
            made: int = field(default=0, init=False)
            dtype: object = probe.float32

            def __post_init__(self):
                if self.gone is not None:
                    warnings.warn(f"The `gone` argument is deprecated. Use `limit` instead.")
                if self.mode == "b":
                    warnings.warn("`mode='b'` is deprecated. Use `mode='a'`.")
                self.computed = 1

        OldConfig = Config
        """,
    "trl/trainer.py": """
        from transformers import Trainer as _Base
        from transformers.utils.deprecation import deprecate_kwarg
        from .config import Config
        try:
            from other import Extra
        except ImportError:
            Extra = None

        class Trainer(_Base):
            label = "x"

            @deprecate_kwarg("tokenizer", new_name="processing_class", version="9")
            def __init__(self, model, args: Config = None, *, processing_class=None, **kwargs):
                super().__init__(model, args, **kwargs)
                self.state, other.thing = 1, 2

            @property
            def helper(self): ...

            @classmethod
            def load(cls, path, /, *parts, **kwargs):
                dtype = kwargs.pop("dtype", "auto")
                kwargs.pop("thrown", None)
                for name in ["mirror", "fast"]:
                    _ = kwargs.pop(name, None)
                return cls(path, **kwargs)

            def _private(self): ...
        """,
}


def _wheel(folder: Path, package: str, version: str, files: dict[str, str]) -> Path:
    path = folder / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            member = zipfile.ZipInfo(name, date_time=(2024, 5, 17, 0, 0, 0))
            archive.writestr(member, textwrap.dedent(text))
    return path


def _table(folder: Path, *releases: dict[str, str]) -> Table:
    readings, versions = [], [f"1.{n}.0" for n in range(len(releases))]
    for version, files in zip(versions, releases, strict=True):
        readings.append(read("trl", version, _wheel(folder, "trl", version, files)))
    days = ["2024-05-17"] * len(versions)
    made = encode("trl", versions, days, readings)
    assert made == encode("trl", versions, days, readings)
    return Table("trl", made["trl.table"])


@pytest.fixture
def known(tmp_path: Path) -> Table:
    return _table(tmp_path, _FIRST)


def _record(known: Table, name: str) -> Any:
    record = known.record(name)
    assert record is not None
    return record


def test_lazily_served_names_are_offered_and_type_checking_ones_are_not(known: Table) -> None:
    names = _record(known, "trl:")["names"][""].split()
    offered = {name.partition("=")[0] for name in names}
    assert offered == {"Config", "OldConfig", "Trainer", "Extra", "LIMIT", "__version__"}
    inner = _record(known, "trl.config:")["names"][""].split()
    assert "Config=^" in inner
    assert "TrainingArguments=transformers.TrainingArguments" in inner


def test_fields_keep_order_defaults_and_flags(known: Table) -> None:
    record = _record(known, "trl.Config")
    assert record["bases"] == {"": "transformers.TrainingArguments"}
    assert record["home"] == {"": "trl.config"}
    assert list(parameters(record["fields"], 0).items()) == [
        ("output_dir", ["", None]),
        ("limit", ["", 16]),
        ("share", ["", 0.25]),
        ("names", ["", []]),
        ("pair", ["", {"t": [1, 16]}]),
        ("strategy", ["", "no"]),
        ("old", ["d", None]),
        ("gone", ["d", None]),
        ("mode", ["", "a"]),
        ("made", ["n", 0]),
        ("dtype", ["", {"e": "probe.float32"}]),
    ]
    assert "computed" in record["attributes"][""].split()
    assert record["settled"] == {"": "self.computed = 1"}


def test_another_name_leads_to_the_class(known: Table) -> None:
    assert _record(known, "trl.OldConfig")["same"] == {"": "trl.Config"}


def test_constructors_and_methods(known: Table) -> None:
    record = _record(known, "trl.Trainer")
    assert record["bases"] == {"": "transformers.Trainer"}
    assert parameters(record["init"], 0) == {
        "model": [""],
        "args": ["", None],
        "processing_class": ["k", None],
        "tokenizer": ["kd", None],
        "kwargs": ["**>"],
    }
    assert parameters(record["methods"]["load"], 0) == {
        "path": ["p"],
        "parts": ["*"],
        "dtype": ["ko", "auto"],
        "thrown": ["koi", None],
        "mirror": ["koi", None],
        "fast": ["koi", None],
        "kwargs": ["**"],
    }
    assert record["attributes"][""].split() == ["_private", "helper", "label", "state"]


def test_what_comes_and_goes_has_its_ranges(tmp_path: Path) -> None:
    second = dict(_FIRST)
    second["trl/config.py"] = (
        second["trl/config.py"]
        .replace("limit: int = LIMIT", "fresh: int = 1\n            limit: int = 32")
        .replace("            gone: Optional[int] = None\n", "")
    )
    third = {name: text for name, text in second.items() if name != "trl/trainer.py"}
    known = _table(tmp_path, _FIRST, second, third)
    fields = _record(known, "trl.Config")["fields"]
    assert fields["p"]["limit"] == {"0": ["", 16], "1-": ["", 32]}
    assert fields["p"]["gone"] == {"0": ["d", None]}
    assert fields["p"]["fresh"] == {"1-": ["", 1]}
    assert list(parameters(fields, 0))[:2] == ["output_dir", "limit"]
    assert list(parameters(fields, 2))[:3] == ["output_dir", "fresh", "limit"]
    assert _record(known, "trl.Trainer")["at"] == "0-1"
    assert _record(known, "trl.trainer:")["at"] == "0-1"


def test_the_day_is_that_of_the_newest_member(tmp_path: Path) -> None:
    assert released(_wheel(tmp_path, "trl", "1.0", _FIRST)) == "2024-05-17"


def test_another_wheel_than_the_listed_one_is_refused(tmp_path: Path) -> None:
    version = next(iter(releases()["trl"]))
    (tmp_path / "trl").mkdir()
    _wheel(tmp_path / "trl", "trl", version, _FIRST)
    with pytest.raises(RuntimeError, match="is not the wheel that the tables were made from"):
        fetch("trl", version, tmp_path)


def test_the_tables_hold_the_listed_releases() -> None:
    listed = releases()
    assert tuple(listed) == tuple(FLOORS) == (*PACKAGES, *SCHEMA_PACKAGES)
    for package, versions in listed.items():
        assert table(package).releases == tuple(versions)
    assert json.dumps(listed)
