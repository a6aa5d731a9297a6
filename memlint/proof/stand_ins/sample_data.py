"""Data sets of the rows that a script expects, from the hub, from disk or in files."""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

from memlint.proof.stand_ins.sample_rows import TABLES, rows

_SPLITS = ("train", "test", "validation")


def replace_data_sets(data: dict[str, str], count: int) -> None:
    import datasets

    datasets.disable_progress_bars()
    files = {name: os.path.normpath(f"/{name}").lstrip("/") for name in data}
    for name, file in files.items():
        inner = re.sub(r"^(?:\.\./|/)+", "", name)
        if "/../" in inner and not os.path.normpath(inner).startswith(".."):
            os.makedirs(os.path.dirname(inner), exist_ok=True)  # and folders on its way
        if Path(name).suffix and Path(name).suffix in TABLES["writers"]:
            write_rows(file, data[name], count)
    _read_by_line(files.values())
    if not hasattr(datasets, "load_dataset"):
        return  # a module of the project has the library's name

    def made(name: str, split: Any, splits: Iterable[str] = _SPLITS) -> Any:
        kind = data.get(name) or data.get(name.rpartition("/")[2]) or data.get("*", "text")
        one = datasets.Dataset.from_list(rows(kind, count))
        suffix = Path(name).suffix
        one = one if suffix and suffix in TABLES["writers"] else _with_classes(one)
        if split is None:
            return datasets.DatasetDict(dict.fromkeys(splits, one))
        return [one for _ in split] if isinstance(split, list) else one

    def load_dataset(path: str, name: Any = None, *args: Any, split: Any = None, **kw: Any) -> Any:
        files: Any = kw.get("data_files")
        parts = _SPLITS if files is None else files if isinstance(files, dict) else ("train",)
        while isinstance(files, dict | list | tuple):
            files = next(iter(files.values() if isinstance(files, dict) else files))
        loaded = made(str(path if files is None else files), split, parts)
        streams = kw.get("streaming") and hasattr(loaded, "to_iterable_dataset")
        return loaded.to_iterable_dataset() if streams else loaded

    whole, parts = datasets.Dataset, datasets.DatasetDict
    real_select, real_split, real_item = whole.select, whole.train_test_split, whole.__getitem__
    real_encode = whole.class_encode_column

    def in_one_process(real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *args, **kw: real(self, *args, **{**kw, "num_proc": None}) or self

    # Scripts count on more rows than these, a filter too, and on splits that others have.
    def select(self: Any, indices: Any, *args: Any, **kw: Any) -> Any:
        kept = [each for each in indices if each < len(self)]
        return real_select(self, kept or [0], *args, **kw)

    def item(self: Any, key: Any) -> Any:
        if isinstance(key, str) and key in _SPLITS and key not in self.column_names:
            return self  # one on disk may be one of several
        return real_item(self, key % len(self) if isinstance(key, int) else key)

    def split(self: Any, *sizes: Any, **kw: Any) -> Any:
        kw |= dict(zip(("test_size", "train_size"), sizes, strict=False))
        few = {name: 0.5 for name in ("test_size", "train_size") if (kw.get(name) or 0) >= 1}
        return real_split(self, **{**kw, **few})

    def encode(self: Any, column: str, *args: Any, **kw: Any) -> Any:
        is_done = isinstance(self.features[column], datasets.ClassLabel)
        return self if is_done else real_encode(self, column, *args, **kw)

    whole.class_encode_column = encode
    for module in (datasets, datasets.load):
        module.load_dataset = load_dataset
    for module in (datasets, datasets.load, whole):
        module.load_from_disk = staticmethod(lambda path, *a, **k: made(str(path), "train"))
    parts.load_from_disk = staticmethod(lambda path, *a, **k: made(str(path), None))
    parts.__missing__ = lambda self, name: next(iter(self.values()))
    whole.map, whole.filter = in_one_process(whole.map), in_one_process(whole.filter)
    whole.select, whole.train_test_split, whole.__getitem__ = select, split, item
    whole.push_to_hub = parts.push_to_hub = lambda self, *a, **k: None


def _with_classes(data: Any) -> Any:
    """Return data with classes as the hub has them, for whose names a script may ask."""
    import datasets

    number, two = datasets.Value("int64"), datasets.ClassLabel(names=["no", "yes"])
    for name, kind in data.features.items():
        if name in ("label", "labels") and kind == number:
            data = data.cast_column(name, two)
        if name.endswith("tags") and kind == datasets.Sequence(number):
            data = data.cast_column(name, datasets.Sequence(two))
    return data


def write_rows(name: str, kind: str, count: int) -> None:
    """Write a file of made rows, as its suffix says, in a folder that may not be there."""
    import numpy
    import pandas  # type: ignore[import-untyped]

    path, values = Path(name), rows(kind, count)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":  # ids of tokens
        numpy.save(path, [each for row in rows("ids:ids", 4 * count) for each in row["ids"]])
    elif path.suffix in (".pkl", ".pickle"):
        path.write_bytes(pickle.dumps(values))
    else:
        writer, options = TABLES["writers"][path.suffix]
        getattr(pandas.DataFrame(values), writer)(path, **options)


class _Rows(list[Any]):
    """Rows of a file, and a dictionary that holds them, whatever a script takes them for."""

    def __getitem__(self, key: Any) -> Any:
        return self if isinstance(key, str) else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self

    def items(self) -> list[tuple[str, Any]]:
        return [(str(index), row) for index, row in enumerate(self)]


def _read_by_line(names: Container[str]) -> None:
    """Let what reads JSON read a row to the line. names: of files that pandas reads so."""
    import pandas

    real_loads, real_read, real_pickle = json.loads, pandas.read_json, pandas.read_pickle

    def loads(text: Any, **kw: Any) -> Any:
        try:
            return real_loads(text, **kw)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data":
                raise
        return _Rows(real_loads(line, **kw) for line in text.splitlines())

    def read(path: Any, **kw: Any) -> Any:
        return real_read(path, **{"lines": os.path.normpath(path) in names, **kw})

    def unpickle(path: Any, **kw: Any) -> Any:
        value = real_pickle(path, **kw)
        return pandas.DataFrame(value) if isinstance(value, list) else value

    json.loads, pandas.read_json, pandas.read_pickle = loads, read, unpickle
