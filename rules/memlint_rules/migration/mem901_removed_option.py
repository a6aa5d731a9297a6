"""An option, class, function, attribute or value that the target version does not have."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Script, triggers
from memlint_rules.migration.batched_formatting import batched_formatting
from memlint_rules.migration.legacy_caches import legacy_caches
from memlint_rules.migration.lost_limits import lost_limits
from memlint_rules.migration.outdated_overrides import outdated_overrides
from memlint_rules.migration.recipe_keys import removed_keys
from memlint_rules.migration.removed_attributes import removed_attributes
from memlint_rules.migration.removed_names import removed_imports
from memlint_rules.migration.removed_options import removed_options
from memlint_rules.migration.returned_mappings import returned_mappings
from memlint_rules.migration.unknown_options import gone_backends


def check(script: Script) -> Iterator[Finding]:
    yield from removed_imports(script)
    yield from removed_options(script)
    yield from removed_attributes(script)
    yield from outdated_overrides(script)
    yield from batched_formatting(script)
    yield from lost_limits(script)
    yield from returned_mappings(script)
    yield from gone_backends(script)
    yield from legacy_caches(script)


RULE = Rule(
    level=Level.ERROR,
    summary="an option, name, attribute or value that the target version does not have",
    check=check,
    of_recipe=removed_keys,
    triggers=(triggers.LIBRARIES,),
)
