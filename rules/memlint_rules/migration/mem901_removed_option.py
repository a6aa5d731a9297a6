"""An option, class, function, attribute or value that the target version does not have.

Libraries rename and move: a script of last year raises TypeError or ImportError on today's trl and
transformers, often only after the model has been loaded. The tables say what each release has; what
took a thing's place is written down with its source in ``memlint.api``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import LIBRARIES, Example, Finding, Level, Rule, Script
from memlint.rule.migration.batched_formatting import batched_formatting
from memlint.rule.migration.lost_limits import lost_limits
from memlint.rule.migration.outdated_overrides import outdated_overrides
from memlint.rule.migration.removed_attributes import removed_attributes
from memlint.rule.migration.removed_names import removed_imports
from memlint.rule.migration.removed_options import removed_options


def check(script: Script) -> Iterator[Finding]:
    yield from removed_imports(script)
    yield from removed_options(script)
    yield from removed_attributes(script)
    yield from outdated_overrides(script)
    yield from batched_formatting(script)
    yield from lost_limits(script)


RULE = Rule(
    code="MEM901",
    name="removed-option",
    level=Level.ERROR,
    summary="an option, name, attribute or value that the target version does not have",
    why=(
        "It raises an error, often after the model has been loaded: TypeError for a keyword, "
        "ImportError or AttributeError for a name, a method or an attribute, ValueError for a "
        "value. Keywords count even when they are False; trainer keywords moved to the configuration, classes to "
        "`trl.experimental`, quantization flags to `BitsAndBytesConfig`."
    ),
    fix_safety=(
        "Safe where the successor means the same; unsafe where a limit or an option is lost, or a "
        "formatting function made one text of a whole batch; advice where nothing took its place "
        "or the value cannot be read where it has to go. A limit that a trainer of your own may "
        "read stays an attribute of the arguments, and the data are cut as well."
    ),
    check=check,
    triggers=(LIBRARIES,),
    references=(
        "https://github.com/huggingface/trl/releases",
        "https://github.com/huggingface/transformers/blob/main/MIGRATION_GUIDE_V5.md",
    ),
    examples=(
        Example(
            title="a class with other defaults",
            bad="""\
from transformers import AdamW

optimizer = AdamW(model.parameters(), lr=1e-4, correct_bias=True)
""",
            good="""\
from torch.optim import AdamW

optimizer = AdamW(model.parameters(), lr=1e-4, eps=1e-6, weight_decay=0.0)
""",
        ),
        Example(
            title="imported and never used",
            bad="""\
from trl import SFTConfig, setup_chat_format

args = SFTConfig("out")
""",
            good="""\
from trl import SFTConfig

args = SFTConfig("out")
""",
        ),
    ),
)
