"""Loading data: what took the place of names and options of ``datasets``."""

from __future__ import annotations

from memlint.api.knowledge.migrations import Migration
from memlint.api.successors import Advice, Build, Remove, Rename

_LOAD = "datasets/load.py, load_dataset"
_METRICS = "datasets/inspect.py and metric.py, until 2.21"

MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        "datasets.load_metric",
        None,
        (Advice("`evaluate.load` of the `evaluate` package loads metrics", _METRICS),),
    ),
    *(
        Migration(
            f"datasets.{name}", None, (Advice("the `evaluate` package has the metrics", _METRICS),)
        )
        for name in ("list_metrics", "inspect_metric", "Metric", "MetricInfo")
    ),
    Migration("datasets.load_dataset", "use_auth_token", (Rename("token", origin=_LOAD),)),
    Migration("datasets.load_dataset_builder", "use_auth_token", (Rename("token", origin=_LOAD),)),
    Migration(
        "datasets.load_dataset",
        "ignore_verifications",
        (Build("verification_mode", '"no_checks"', origin=_LOAD),),
        values=(True,),
    ),
    Migration(
        "datasets.load_dataset", "ignore_verifications", (Remove(origin=_LOAD),), values=(False,)
    ),
    Migration(
        "datasets.load_dataset",
        "task",
        (Advice("rename the columns with `rename_columns`", _LOAD),),
    ),
)
