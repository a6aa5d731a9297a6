"""Data sets of the rows that a script expects, from the hub, from disk or in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memlint.proof.stand_ins.sample_rows import rows, text


def replace_data_sets(data: dict[str, str], count: int) -> None:
    import datasets

    for name, kind in data.items():
        suffix = Path(name).suffix
        if suffix in (".json", ".jsonl", ".csv", ".txt", ".parquet"):
            _write(Path(name), rows(kind, count))

    def kind_of(name: str) -> str:
        return data.get(name) or data.get(name.rpartition("/")[2]) or data.get("*", "text")

    def made(name: str, split: Any) -> Any:
        one = datasets.Dataset.from_list(rows(kind_of(name), count))
        if split is None:
            parts = data.get("splits", "train,test,validation").split(",")
            return datasets.DatasetDict(dict.fromkeys(parts, one))
        return [one for _ in split] if isinstance(split, list) else one

    def load_dataset(path: str, name: Any = None, *args: Any, split: Any = None, **kw: Any) -> Any:
        files = kw.get("data_files")
        if isinstance(files, dict):
            files = next(iter(files.values()))
        if isinstance(files, list):
            files = files[0]
        loaded = made(str(files) if files is not None else str(path), split)
        if kw.get("streaming"):
            return (
                loaded.to_iterable_dataset() if hasattr(loaded, "to_iterable_dataset") else loaded
            )
        if files is not None and split is None:
            wanted = kw["data_files"] if isinstance(kw["data_files"], dict) else ("train",)
            return datasets.DatasetDict(dict.fromkeys(wanted, loaded["train"]))
        return loaded

    def load_from_disk(path: str, *args: Any, **kw: Any) -> Any:
        return made(str(path), None if data.get("disk") == "dict" else "train")

    real_map, real_select = datasets.Dataset.map, datasets.Dataset.select
    real_split = datasets.Dataset.train_test_split

    def map_(self: Any, *args: Any, **kw: Any) -> Any:
        kw.pop("num_proc", None)
        return real_map(self, *args, **kw)

    # Scripts count on more rows than these.
    def select(self: Any, indices: Any, *args: Any, **kw: Any) -> Any:
        kept = [each for each in indices if each < len(self)]
        return real_select(self, kept or [0], *args, **kw)

    def split(self: Any, *sizes: Any, **kw: Any) -> Any:
        kw |= dict(zip(("test_size", "train_size"), sizes, strict=False))
        few = {name: 0.5 for name in ("test_size", "train_size") if (kw.get(name) or 0) >= 1}
        return real_split(self, **{**kw, **few})

    for module in (datasets, datasets.load):
        module.load_dataset = load_dataset
        module.load_from_disk = load_from_disk
    datasets.Dataset.load_from_disk = staticmethod(lambda path, *a, **k: made(str(path), "train"))
    datasets.DatasetDict.load_from_disk = staticmethod(lambda path, *a, **k: made(str(path), None))
    datasets.Dataset.map, datasets.Dataset.select = map_, select
    datasets.Dataset.train_test_split = split
    datasets.disable_progress_bars()


def _write(path: Path, values: list[dict[str, Any]]) -> None:
    import datasets

    path.parent.mkdir(parents=True, exist_ok=True)
    made = datasets.Dataset.from_list(values)
    if path.suffix == ".json":
        path.write_text(json.dumps(values))
    elif path.suffix == ".txt":
        path.write_text("\n".join(text(index) for index in range(len(values))))
    else:
        writers = {".jsonl": made.to_json, ".csv": made.to_csv, ".parquet": made.to_parquet}
        writers[path.suffix](str(path))
