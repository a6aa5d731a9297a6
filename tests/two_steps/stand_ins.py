"""What a script loads, replaced by tiny things made here; everything else is the real library.

Real: signatures, configurations, trainers, collators, losses, two optimizer steps on the CPU.
Replaced: weights, tokenizers, data sets, the hub, experiment trackers, GPUs, packages that are not
installed. A keyword that the real loader refuses is refused here, too.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

from tests.two_steps.rows import rows, text

_VOCABULARY = 384
# Keywords that loaders of transformers take although their signatures only say ``**kwargs``.
_LOADER_TAKES = frozenset(
    [
        "attn_implementation",
        "cache_dir",
        "code_revision",
        "config",
        "device_map",
        "dtype",
        "experts_implementation",
        "force_download",
        "from_tf",
        "ignore_mismatched_sizes",
        "key_mapping",
        "local_files_only",
        "low_cpu_mem_usage",
        "max_memory",
        "max_position_embeddings",
        "num_labels",
        "id2label",
        "label2id",
        "offload_buffers",
        "offload_folder",
        "output_attentions",
        "output_hidden_states",
        "problem_type",
        "proxies",
        "quantization_config",
        "resume_download",
        "return_unused_kwargs",
        "revision",
        "subfolder",
        "token",
        "torch_dtype",
        "tp_plan",
        "trust_remote_code",
        "use_auth_token",
        "use_cache",
        "use_kernels",
        "use_safetensors",
        "variant",
        "weights_only",
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
        "sliding_window",
        "rope_scaling",
        "rope_theta",
        "finetuning_task",
        "gradient_checkpointing",
        "tie_word_embeddings",
        "_attn_implementation",
        "return_dict",
    ]
)
losses: list[dict[str, Any]] = []


def install(data: dict[str, str], checkout: str, environment: dict[str, str]) -> None:
    """Replace what scripts load.

    data: the shape of rows by data set name or file; ``*`` for all others. A name with a slash
    and a suffix is a file that is written below the working directory. checkout: the folder of
    the script's project. environment: variables that the script wants.
    """
    os.environ |= {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "WANDB_MODE": "disabled",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_TOKEN": "hf_stand_in",
        "WANDB_API_KEY": "stand-in",
        **environment,
    }
    sys.meta_path.append(_Missing(checkout))
    _data_sets(data)
    _models()
    _tokenizers()
    _trainers()
    _hub()
    _devices()


# -- packages that are not installed -----------------------------------------------------------


class _Anything(ModuleType):
    """A module of which every attribute is a mock, classes that can be inherited from included."""

    __path__: list[str] = []
    __version__ = "1.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if name[0].isupper():
            value: Any = type(name, (_Mock,), {})
        else:
            value = _Mock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class _Mock(MagicMock):
    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(name=keywords.get("name"))

    def _get_child_mock(self, **keywords: Any) -> MagicMock:
        return _Mock(**keywords)

    def __float__(self) -> float:
        return 0.5


class _Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for known packages that are not installed, and for nothing else."""

    packages = frozenset(
        [
            "wandb",
            "swanlab",
            "modelscope",
            "evaluate",
            "nltk",
            "rouge_score",
            "sacrebleu",
            "loguru",
            "dotenv",
            "firebase_admin",
            "codebleu",
            "rapidfuzz",
            "math_verify",
            "latex2sympy2_extended",
            "colorama",
            "bitsandbytes",
            "deepspeed",
            "sklearn",
            "scipy",
            "hydra",
            "omegaconf",
            "mlflow",
            "comet_ml",
            "tensorboard",
            "indicnlp",
            "normalizer",
            "seaborn",
            "flash_attn",
            "vllm",
            "unsloth",
            "jsonlines",
            "ndjson",
            "openai",
            "gradio",
            "distutils",
            "cv2",
            "PIL",
            "torchvision",
            "sentencepiece",
            "einops",
            "fire",
        ]
    )

    def __init__(self, checkout: str) -> None:
        self._checkout = checkout

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """A stand-in where the script itself imports; libraries see what is really installed."""
        top = name.partition(".")[0]
        if top not in self.packages:
            return None
        known = isinstance(sys.modules.get(top), _Anything)
        if not known and not self._asked_by_script():
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def _asked_by_script(self) -> bool:
        frame = sys._getframe(2)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back  # type: ignore[assignment]
        return frame is not None and frame.f_code.co_filename.startswith(self._checkout)

    def create_module(self, spec: Any) -> ModuleType:
        return _Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


# -- data ---------------------------------------------------------------------------------------


def _data_sets(data: dict[str, str]) -> None:
    import datasets

    for name, kind in data.items():
        suffix = Path(name).suffix
        if suffix in (".json", ".jsonl", ".csv", ".txt", ".parquet"):
            _write(Path(name), kind)

    def kind_of(name: str) -> str:
        return data.get(name) or data.get(name.rpartition("/")[2]) or data.get("*", "text")

    def made(name: str, split: Any) -> Any:
        one = datasets.Dataset.from_list(rows(kind_of(name)))
        if split is None:
            parts = data.get("splits", "train,test,validation").split(",")
            return datasets.DatasetDict(dict.fromkeys(parts, one))
        if isinstance(split, list):
            return [one for _ in split]
        return one

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

    original_map = datasets.Dataset.map

    def map_(self: Any, *args: Any, **kw: Any) -> Any:
        kw.pop("num_proc", None)
        return original_map(self, *args, **kw)

    for module in (datasets, datasets.load):
        module.load_dataset = load_dataset
        module.load_from_disk = load_from_disk
    datasets.Dataset.load_from_disk = staticmethod(lambda path, *a, **k: made(str(path), "train"))
    datasets.DatasetDict.load_from_disk = staticmethod(lambda path, *a, **k: made(str(path), None))
    datasets.Dataset.map = map_
    datasets.disable_progress_bars()


def _write(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = rows(kind)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in values))
    elif path.suffix == ".json":
        path.write_text(json.dumps(values))
    elif path.suffix == ".txt":
        path.write_text("\n".join(text(index) for index in range(len(values))))
    elif path.suffix == ".csv":
        import csv

        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(values[0]))
            writer.writeheader()
            writer.writerows(values)
    else:
        import datasets

        datasets.Dataset.from_list(values).to_parquet(str(path))


# -- models and tokenizers ----------------------------------------------------------------------

_SMALL = {
    "vocab_size": _VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "d_model": 32, "d_kv": 8,
    "d_ff": 64, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "n_embd": 32,
    "n_layer": 2, "n_head": 4, "max_position_embeddings": 512, "n_positions": 512,
    "max_window_layers": 2, "sliding_window": 64, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 0, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "embedding_size": 32, "type_vocab_size": 2,
}  # fmt: skip


def _small_config(config_class: Any) -> Any:
    """A configuration of some ten thousand parameters, with the class that a hub's would name."""
    import transformers

    made = _shrunk(config_class)
    if made.is_encoder_decoder:
        made.decoder_start_token_id = 0
    for mapping in (
        transformers.MODEL_FOR_CAUSAL_LM_MAPPING,
        transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    ):
        if config_class in mapping and not made.architectures:
            made.architectures = [mapping[config_class].__name__]
    return made


def _shrunk(config_class: Any) -> Any:
    config = config_class()
    takes = {name: value for name, value in _SMALL.items() if hasattr(config, name)}
    if hasattr(config, "layer_types"):
        takes["layer_types"] = None
    try:
        return config_class(**takes)
    except Exception:
        takes.pop("layer_types", None)
        return config_class(**takes)


def _config_class(name: str, loader: str) -> Any:
    import transformers

    known = (
        (r"t5|flan|ul2", "T5Config"), (r"bart(?!h)", "BartConfig"), (r"gpt-?2|dialogpt", "GPT2Config"),
        (r"roberta", "RobertaConfig"), (r"bert", "BertConfig"), (r"bloom", "BloomConfig"),
        (r"gpt-?neox|pythia|stablecode|stablelm", "GPTNeoXConfig"), (r"phi-?3", "Phi3Config"), (r"phi", "PhiConfig"),
        (r"gemma-?2", "Gemma2Config"), (r"gemma-?3", "Gemma3TextConfig"), (r"gemma", "GemmaConfig"),
        (r"mistral|zephyr", "MistralConfig"), (r"qwen-?3", "Qwen3Config"), (r"qwen", "Qwen2Config"),
        (r"\bopt\b|opt-", "OPTConfig"), (r"starcoder|santacoder", "GPTBigCodeConfig"),
    )  # fmt: skip
    for pattern, found in known:
        if re.search(pattern, name.lower()):
            return getattr(transformers, found)
    if "Seq2Seq" in loader or "ConditionalGeneration" in loader:
        return transformers.T5Config
    return transformers.LlamaConfig


def _refuse_unknown(loader: str, keywords: dict[str, Any]) -> None:
    for name in keywords:
        if name not in _LOADER_TAKES:
            raise TypeError(
                f"{loader}.from_pretrained() got an unexpected keyword argument '{name}'"
            )


def _models() -> None:
    import torch
    import transformers
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

    def auto(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        _refuse_unknown(cls.__name__, kw)
        name = kw.pop("pretrained_model_name_or_path", name)
        if Path(str(name), "config.json").is_file():
            config = transformers.AutoConfig.from_pretrained(str(name))
        else:
            config = _small_config(_config_class(str(name), cls.__name__))
        return build(lambda: cls.from_config(config), config, kw)

    def concrete(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        _refuse_unknown(cls.__name__, kw)
        config = _small_config(cls.config_class)
        return build(lambda: cls(config), config, kw)

    def build(make: Any, config: Any, kw: dict[str, Any]) -> Any:
        for label in ("num_labels", "id2label", "label2id", "problem_type"):
            if label in kw:
                setattr(config, label, kw[label])
        torch.manual_seed(0)
        wanted = kw.get("dtype", kw.get("torch_dtype"))
        model = make()
        if wanted in (torch.bfloat16, "bfloat16"):
            model = model.to(torch.bfloat16)
        if kw.get("quantization_config") is not None:
            for parameter in model.parameters():
                parameter.requires_grad_(False)
        model.name_or_path = "stand-in"
        return model.eval()

    _BaseAutoModelClass.from_pretrained = classmethod(auto)
    transformers.PreTrainedModel.from_pretrained = classmethod(concrete)

    def config(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        if Path(str(name), "config.json").is_file():
            return real_config(name, *args, **kw)
        made = _small_config(_config_class(str(name), ""))
        for key, value in kw.items():
            if hasattr(made, key) and key not in ("vocab_size",):
                setattr(made, key, value)
        return made

    real_config = transformers.AutoConfig.from_pretrained
    transformers.AutoConfig.from_pretrained = classmethod(config)
    transformers.GenerationConfig.from_pretrained = classmethod(lambda cls, *a, **k: cls())
    real_generate = transformers.GenerationMixin.generate

    def generate(self: Any, *args: Any, **kw: Any) -> Any:
        for name in ("max_new_tokens", "max_length"):
            if isinstance(kw.get(name), int) and kw[name] > 64:
                kw.pop(name)
                kw["max_new_tokens"] = 4
        return real_generate(self, *args, **kw)

    transformers.GenerationMixin.generate = generate


_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def _tokenizers() -> None:
    import tokenizers
    import transformers

    made: list[Any] = []

    def tokenizer(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        if not made:
            core = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
            core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
            core.decoder = tokenizers.decoders.ByteLevel()
            trainer = tokenizers.trainers.BpeTrainer(
                vocab_size=_VOCABULARY - 8,
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
        fast.chat_template = _TEMPLATE
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


# -- trainers -----------------------------------------------------------------------------------


def _trainers() -> None:
    import transformers

    arguments = transformers.TrainingArguments
    real_post_init = arguments.__post_init__
    output = tempfile.mkdtemp(prefix="two-steps-")

    def post_init(self: Any) -> None:
        small: dict[str, Any] = {
            "output_dir": output, "max_steps": 2, "use_cpu": True, "bf16": False, "fp16": False,
            "tf32": None, "report_to": "none", "push_to_hub": False, "save_strategy": "no",
            "load_best_model_at_end": False, "logging_steps": 1, "logging_strategy": "steps",
            "logging_first_step": True, "deepspeed": None, "dataloader_num_workers": 0,
            "dataloader_prefetch_factor": None, "dataloader_persistent_workers": False,
            "torch_compile": False, "neftune_noise_alpha": None, "use_vllm": False,
            "hub_model_id": None, "fsdp": None, "seed": 42, "dataset_num_proc": None,
            "bf16_full_eval": False, "fp16_full_eval": False, "activation_offloading": False,
            "logging_nan_inf_filter": False, "warmup_ratio": None,
        }  # fmt: skip
        for name, value in small.items():
            if hasattr(self, name):
                setattr(self, name, value)
        if re.search(r"8bit|4bit|paged|lion|fused|galore|apollo", str(self.optim)):
            self.optim = "adamw_torch"
        for name, most in (
            ("per_device_train_batch_size", 4), ("per_device_eval_batch_size", 4),
            ("gradient_accumulation_steps", 2), ("max_completion_length", 8), ("warmup_steps", 1),
        ):  # fmt: skip
            value = getattr(self, name, None)
            if isinstance(value, int | float) and value > most:
                setattr(self, name, most)
        if getattr(self, "num_generations", None):
            self.num_generations = 2
            self.per_device_train_batch_size = 4
            self.generation_batch_size = self.steps_per_generation = None
        if hasattr(self, "eval_steps") and self.eval_steps:
            self.eval_steps = 2
        real_post_init(self)

    arguments.__post_init__ = post_init
    real_train = transformers.Trainer.train

    def train(self: Any, *args: Any, **kw: Any) -> Any:
        kw.pop("resume_from_checkpoint", None)
        done = real_train(self)
        losses.extend(
            {"loss": entry["loss"], "grad_norm": entry.get("grad_norm")}
            for entry in self.state.log_history
            if "loss" in entry
        )
        return done

    transformers.Trainer.train = train
    for name in ("push_to_hub", "create_model_card"):
        setattr(transformers.Trainer, name, lambda self, *a, **k: None)


def _hub() -> None:
    import huggingface_hub
    import transformers

    for name in ("login", "notebook_login", "whoami", "create_repo", "snapshot_download"):
        setattr(huggingface_hub, name, lambda *a, **k: MagicMock())
    transformers.PreTrainedModel.push_to_hub = lambda self, *a, **k: None
    transformers.PreTrainedTokenizerBase.push_to_hub = lambda self, *a, **k: None
    transformers.set_seed(42)


def _devices() -> None:
    import torch
    import transformers

    def on_cpu(value: Any) -> Any:
        gpu = isinstance(value, str) and value.startswith(("cuda", "mps"))
        gpu = gpu or (isinstance(value, torch.device) and value.type != "cpu")
        return "cpu" if gpu or (isinstance(value, int) and not isinstance(value, bool)) else value

    def moved(real: Any) -> Any:
        def to(self: Any, *args: Any, **kw: Any) -> Any:
            if "device" in kw:
                kw["device"] = on_cpu(kw["device"])
            return real(self, *map(on_cpu, args), **kw)

        return to

    for cls in (torch.nn.Module, torch.Tensor, transformers.BatchEncoding):
        cls.to = moved(cls.to)
    torch.nn.Module.cuda = torch.Tensor.cuda = lambda self, *a, **k: self
    torch.cuda.get_device_capability = lambda *a: (8, 0)
    torch.cuda.get_device_name = lambda *a: "stand-in"
    torch.cuda.empty_cache = lambda: None
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
        setattr(torch.cuda, name, lambda *a: 0)
    torch.cuda.get_device_properties = lambda *a: MagicMock(total_memory=80 * 2**30)
