"""A small tokenizer, trained here, for every name."""

from __future__ import annotations

import re
from typing import Any

from memlint.proof.stand_ins.sample_rows import text

VOCABULARY = 384
_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def replace_tokenizers(*, has_chat_template: bool) -> None:
    import tokenizers
    import transformers

    made: list[Any] = []

    def tokenizer(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        if not made:
            core = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
            core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
            core.decoder = tokenizers.decoders.ByteLevel()
            trainer = tokenizers.trainers.BpeTrainer(
                vocab_size=VOCABULARY - 8,
                special_tokens=["<pad>", "<s>", "</s>", "<unk>"],
                initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
                show_progress=False,
            )
            core.train_from_iterator([text(index) for index in range(40)], trainer)
            made.append(core)
        fast = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizers.Tokenizer.from_str(made[0].to_str()),
            pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
            model_max_length=512,
        )  # fmt: skip
        if re.search(r"bert|electra|xlm", str(name).lower()):
            fast.add_special_tokens(
                {"sep_token": "</s>", "cls_token": "<s>", "mask_token": "<mask>"}
            )
        fast.chat_template = _TEMPLATE if has_chat_template else None
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
