"""ChatML for a base model: the template, its two tokens, and embeddings for them.

    model, tokenizer = setup_chat_format(model, tokenizer)

What: the function of that name, which TRL had until 0.26, written anew.
Why: a base model has no chat template, and its tokenizer would cut `<|im_start|>` to pieces.
Cost: two rows of the embeddings and of the output head, which begin as the mean of the others:
train them (with LoRA: `modules_to_save`), else the model never learns to end a turn.

What is better than it was: embeddings that have room already are not cut to the vocabulary.
"""

from __future__ import annotations

from typing import Any

__all__ = ["setup_chat_format"]

_BEGIN, _END = "<|im_start|>", "<|im_end|>"

_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '" + _BEGIN + "' + message['role'] + '\n' + message['content'] + '" + _END + "\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + _BEGIN + "assistant\n' }}{% endif %}"
)


def setup_chat_format(
    model: Any,
    tokenizer: Any,
    format: str = "chatml",  # noqa: A002
    resize_to_multiple_of: int | None = None,
) -> tuple[Any, Any]:
    """Give ``model`` and ``tokenizer`` the ChatML format; both are changed and returned.

    The tokenizer gets the chat template and begins with `<|im_start|>`, ends and pads with
    `<|im_end|>`; the model's configurations get the ids, and its embeddings grow where they must.

    format: "chatml", the only one.
    resize_to_multiple_of: fill the embeddings up to a multiple of so many rows.

    ValueError for another format, for a multiple below 1, and where the tokenizer has a template.
    """
    if format != "chatml":
        raise ValueError(f'format must be "chatml", got {format!r}.')
    if resize_to_multiple_of is not None and resize_to_multiple_of < 1:
        raise ValueError(f"resize_to_multiple_of must be at least 1, got {resize_to_multiple_of}.")
    if getattr(tokenizer, "chat_template", None) is not None:
        raise ValueError(
            "the tokenizer has a chat template already. Train with it, or set "
            "tokenizer.chat_template = None first to have another."
        )
    tokenizer.add_tokens([_BEGIN, _END], special_tokens=True)
    tokenizer.bos_token = _BEGIN
    tokenizer.eos_token = _END
    tokenizer.pad_token = _END
    tokenizer.chat_template = _TEMPLATE
    _make_room(model, len(tokenizer), resize_to_multiple_of)
    configurations = [model.config, getattr(model.config, "text_config", None)]
    configurations.append(getattr(model, "generation_config", None))
    for configuration in configurations:
        if configuration is not None:
            configuration.bos_token_id = tokenizer.bos_token_id
            configuration.eos_token_id = tokenizer.eos_token_id
            configuration.pad_token_id = tokenizer.pad_token_id
    return model, tokenizer


def _make_room(model: Any, tokens: int, multiple: int | None) -> None:
    """Embeddings for ``tokens``, as few more as ``multiple`` asks for; never fewer than now."""
    now = model.get_input_embeddings().weight.shape[0]
    wanted = max(tokens, now)
    if multiple is not None:
        wanted += -wanted % multiple
    if wanted != now:
        model.resize_token_embeddings(wanted)
