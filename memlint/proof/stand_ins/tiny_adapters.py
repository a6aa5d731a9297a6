"""Adapters that a script loads: new ones, unless it saved them itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def replace_adapters() -> None:
    import peft

    if not hasattr(peft, "auto"):
        return  # a module of the project has the library's name

    def config(name: Any) -> Any:
        return peft.LoraConfig(
            base_model_name_or_path="stand-in", r=4, lora_alpha=8, target_modules="all-linear"
        )

    def is_saved(name: Any) -> bool:
        return any(Path(str(name)).glob("adapter_model.*"))

    real_config = peft.PeftConfig.from_pretrained.__func__
    real_model = peft.PeftModel.from_pretrained.__func__

    def peft_config(cls: Any, name: Any, *args: Any, **kw: Any) -> Any:
        return real_config(cls, name, *args, **kw) if is_saved(name) else config(name)

    def peft_model(
        cls: Any, model: Any, name: Any = None, *args: Any, is_trainable: bool = False, **kw: Any
    ) -> Any:
        name = kw.pop("model_id", name)
        if is_saved(name):
            return real_model(cls, model, name, *args, is_trainable=is_trainable, **kw)
        made = config(name)
        made.inference_mode = not is_trainable
        return peft.get_peft_model(model, made)

    def auto(cls: Any, name: Any, *args: Any, is_trainable: bool = False, **kw: Any) -> Any:
        base = cls._target_class or __import__("transformers").AutoModelForCausalLM
        for option in ("adapter_name", "config", "revision"):
            kw.pop(option, None)
        saved = real_config(peft.PeftConfig, name) if is_saved(name) else config(name)
        model = base.from_pretrained(saved.base_model_name_or_path, **kw)
        return peft_model(peft.PeftModel, model, name, is_trainable=is_trainable)

    peft.PeftConfig.from_pretrained = classmethod(peft_config)
    peft.PeftModel.from_pretrained = classmethod(peft_model)
    peft.auto._BaseAutoPeftModel.from_pretrained = classmethod(auto)
