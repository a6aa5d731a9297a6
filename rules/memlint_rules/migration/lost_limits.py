"""A limit that TRL's trainers no longer set, read by a trainer made after one of them.

``self.max_prompt_length`` was set by GRPOTrainer and its like from their configuration. Whoever
still wants it sets it on the arguments, where it can be asked for.
"""

from collections.abc import Iterator

from memlint.rule import Finding, Script, edits, facts, fix, is_guarded, successors


def lost_limits(script: Script) -> Iterator[Finding]:
    """``self.max_prompt_length`` in a trainer made after TRL's, which set it until its end."""
    for definition in script.classes:
        for trainer in filter(None, map(script.name, definition.bases)):
            config = script.api.config_of(trainer)
            if config is None or not config.startswith("trl."):
                continue
            for node in facts.reads_of_self(definition):
                if not _was_set(script, trainer, config, node.attr) or is_guarded(script, node):
                    continue
                source = f'getattr(self.args, "{node.attr}", None)'
                yield Finding(
                    script.span(node),
                    f"`{trainer.rpartition('.')[2]}` of {script.api.at_target(trainer)} "
                    f"does not set `{node.attr}` any more",
                    fix(
                        f"Ask `self.args` for `{node.attr}`",
                        (edits.ReplaceExpression(script.span(node), source),),
                    ),
                )


def _was_set(script: Script, trainer: str, config: str, attribute: str) -> bool:
    """True if TRL's trainer set a limit of its configuration that is the runtime's now."""
    return (
        isinstance(script.api.successor(config, attribute), successors.Runtime)
        and script.api.accepts(config, attribute) is False
        and attribute not in (script.api.attributes(trainer) or (attribute,))
    )
