"""Data sets of the rows that a script expects, from the hub, from disk or in files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from memlint.proof.stand_ins.sample_rows import rows
from memlint.source.bounded import read_regular_text

_SPLITS = ("train", "test", "validation")
# How pandas writes a file, by its suffix.
_WRITERS: dict[str, tuple[str, dict[str, Any]]] = {
    ".json": ("to_json", {"orient": "records"}), ".csv": ("to_csv", {"index": False}),
    ".jsonl": ("to_json", {"orient": "records", "lines": True}), ".parquet": ("to_parquet", {}),
    ".tsv": ("to_csv", {"index": False, "sep": "\t"}),
    ".txt": ("to_csv", {"index": False, "header": False}),
    ".bin": ("to_csv", {"index": False, "header": False, "encoding": "utf-16-le"}),  # ids: uint16
}  # fmt: skip


def replace_data_sets(data: dict[str, str], count: int) -> None:
    import datasets

    for name, kind in data.items():
        if Path(name).suffix in _WRITERS:
            _write(Path(os.path.normpath(f"/{name}").lstrip("/")), rows(kind, count))
    if not hasattr(datasets, "load_dataset"):
        return  # a module of the project has the library's name

    def made(name: str, split: Any, splits: Iterable[str] = _SPLITS) -> Any:
        kind = data.get(name) or data.get(name.rpartition("/")[2]) or data.get("*", "text")
        one = datasets.Dataset.from_list(rows(kind, count))
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

    for module in (datasets, datasets.load):
        module.load_dataset = load_dataset
    for module in (datasets, datasets.load, whole):
        module.load_from_disk = staticmethod(lambda path, *a, **k: made(str(path), "train"))
    parts.load_from_disk = staticmethod(lambda path, *a, **k: made(str(path), None))
    parts.__missing__ = lambda self, name: next(iter(self.values()))
    whole.map, whole.filter = in_one_process(whole.map), in_one_process(whole.filter)
    whole.select, whole.train_test_split, whole.__getitem__ = select, split, item
    whole.push_to_hub = parts.push_to_hub = lambda self, *a, **k: None
    datasets.disable_progress_bars()


def _write(path: Path, values: list[dict[str, Any]]) -> None:
    import pandas  # type: ignore[import-untyped]

    path.parent.mkdir(parents=True, exist_ok=True)
    script = read_regular_text(sys.argv[0]) if Path(sys.argv[0]).is_file() else ""
    by_line = path.suffix == ".json" and "json.loads(" in script and "json.load(" not in script
    writer, options = _WRITERS[".jsonl" if by_line else path.suffix]
    getattr(pandas.DataFrame(values), writer)(path, **options)
