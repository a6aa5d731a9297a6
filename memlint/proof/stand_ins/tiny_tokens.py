"""A small tokenizer, trained here, for every name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from memlint.proof.stand_ins.sample_rows import TABLES, text

VOCABULARY: int = TABLES["model"]["vocab_size"]
_SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")


def replace_tokenizers(
    *,
    has_chat_template: bool,
    words: Iterable[str] = (),
    size_of: Callable[[str], int] | None = None,
) -> None:
    """words: what a token stands for, where each is one; else parts of them are. size_of: the
    vocabulary that a name says; else it is as small as it is."""
    import transformers

    def tokenizer(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        import tokenizers

        core = _of_words(words) if words else _trained()
        kind: Any = transformers.PreTrainedTokenizerFast
        if size_of is not None:
            size = size_of(str(name))
            kind = type(kind.__name__, (kind,), {"__len__": lambda self: size})
        fast = kind(
            tokenizer_object=tokenizers.Tokenizer.from_str(core.to_str()),
            pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
            model_max_length=1 << 20 if words else 512,
        )  # fmt: skip
        if re.search(r"bert|electra|xlm", str(name).lower()):
            fast.add_special_tokens(
                {"sep_token": "</s>", "cls_token": "<s>", "mask_token": "<mask>"}
            )
        fast.chat_template = "".join(TABLES["template"]) if has_chat_template else None
        for side in ("padding_side", "truncation_side", "model_max_length"):
            if side in kw:
                setattr(fast, side, kw[side])
        fast.name_or_path = "stand-in"
        return fast

    for cls in (
        transformers.AutoTokenizer,
        transformers.PreTrainedTokenizerBase,
        transformers.AutoProcessor,
    ):
        cls.from_pretrained = classmethod(tokenizer)


@cache
def _trained() -> Any:
    """A tokenizer of the parts of sample texts."""
    import tokenizers

    core = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY - 8,
        special_tokens=[*_SPECIAL],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([text(index) for index in range(40)], trainer)
    return core


def _of_words(words: Iterable[str]) -> Any:
    import tokenizers

    numbers = {word: number for number, word in enumerate(dict.fromkeys((*_SPECIAL, *words)))}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="<unk>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return core
