"""Methods that return a mapping at the target, where the script takes the ids in it."""

from collections.abc import Iterator

from memlint.rule import Call, Finding, Object, Script, edits, facts, fix, is_guarded

_METHOD = "apply_chat_template"
_BASE = "transformers.PreTrainedTokenizerBase"
_SWITCH = "return_dict"
# Given only with a mapping.
_MASKS = "return_assistant_tokens_mask"


def returned_mappings(script: Script) -> Iterator[Finding]:
    """``apply_chat_template``, whose ``return_dict`` is on by default in transformers 5."""
    for call in script.method_calls(_METHOD):
        if not _returns_mapping(script, call) or is_guarded(script, call.node):
            continue
        use = facts.taken_for_ids(script, call)
        if use is None:
            continue
        yield Finding(
            script.span(call.node.func),
            f"`{_METHOD}` returns a mapping in {script.api.at_target(_BASE)}, and "
            f"`{script.text(use)}` takes it for the token ids",
            fix(f"Give `{_SWITCH}=False`", (edits.SetKeyword(call.span, _SWITCH, "False"),)),
        )


def _returns_mapping(script: Script, call: Call) -> bool:
    """True if it certainly does, by a default that the call leaves as it is."""
    if call.has_unknown_keywords or not _is_of_library(script, call.receiver):
        return False
    if any(call.setting(option).given is not False for option in (_SWITCH, _MASKS)):
        return False
    tokenize = call.setting("tokenize")
    signature = script.api.signature(f"{_BASE}.{_METHOD}")
    switch = signature.parameters.get(_SWITCH) if signature is not None else None
    on = switch is not None and switch.default is True
    return on and (tokenize.given is False or tokenize.value is True)


def _is_of_library(script: Script, tokenizer: object) -> bool:
    """True if it is a tokenizer of transformers; a checkpoint's own may return what it likes."""
    if not isinstance(tokenizer, Object) or tokenizer.cls is not None or script.uses_unsloth:
        return False
    kind = script.api.canonical(tokenizer.type or "")
    if kind != "transformers.AutoTokenizer" and not script.api.is_a(kind, _BASE):
        return False
    made = script.call_at(tokenizer.made_by.node) if tokenizer.made_by is not None else None
    remote = made.setting("trust_remote_code") if made is not None else None
    return remote is not None and (remote.given is False or remote.value is False)
