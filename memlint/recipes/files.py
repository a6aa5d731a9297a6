"""Which files may hold a recipe or launch commands, by name, and then by a word in them.

Nearly every YAML, JSON and shell file of a repository is none of ours: it is passed over here,
before anything is parsed. Imported at every start: light.
"""

import re

from memlint.source.patterns import lazy_pattern

PROGRAMS = (
    r"\b(?:python[\d.]*|torchrun|accelerate|deepspeed|trl|tune|llamafactory-cli|lmf|axolotl)\b"
)
STARTS = lazy_pattern(PROGRAMS)
_LAUNCHES = lazy_pattern(PROGRAMS.encode())
_STARTED = lazy_pattern(rb"\.py|\s(?:-m|--module)\s")
_SUFFIXES = {
    "sh": "shell",
    "bash": "shell",
    "zsh": "shell",
    "slurm": "shell",
    "sbatch": "shell",
    "mk": "makefile",
    "just": "justfile",
    "dockerfile": "dockerfile",
    "ipynb": "notebook",
    "py": "python",
}
_NAMES = {
    "makefile": "makefile",
    "gnumakefile": "makefile",
    "justfile": "justfile",
    ".justfile": "justfile",
    "dockerfile": "dockerfile",
    "containerfile": "dockerfile",
}


def kind_of(path: str) -> str | None:
    """How a file of this name is read; None if it holds no commands."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith(("dockerfile.", "containerfile.")):
        return "dockerfile"
    stem, _, suffix = name.rpartition(".")
    return _SUFFIXES.get(suffix) if stem.strip(".") else None


def is_launch_file(path: str) -> bool:
    """True if a file of this name holds commands and nothing else."""
    return kind_of(path) not in (None, "notebook", "python")


def says_commands(name: str) -> bool:
    """True if a file of this name, no script, may hold commands, or show them to people."""
    return kind_of(name) not in (None, "python") or name.lower() == "readme.md"


def may_launch(data: bytes) -> bool:
    """True if a file of commands may start a script of Python: most build or install something."""
    return _STARTED.search(data) is not None and _LAUNCHES.search(data) is not None


DOCUMENTS = (".yaml", ".yml", ".json")
# Recipes have some kilobytes; a file of this size is data.
MAX_BYTES = 256 << 10
# Every recipe of a kind has one of these words.
_WORDS = (
    rb"_component_|model_name_or_path|base_model|distributed_type|compute_environment"
    rb"|zero_optimization|train_micro_batch_size_per_gpu"
)
# Options of trainers: of these words a recipe that a command names has one.
_OPTIONS = (
    rb"\b(?:learning_rate|output_dir|per_device_\w+|num_(?:train_epochs|generations|iterations)"
    rb"|max_(?:steps|length|seq_length|prompt_length|completion_length)|gradient_\w+|loss_type"
    rb"|eval(?:uation)?_strategy|warmup_\w+|dataset_name|torch_dtype|attn_implementation|lora_r"
    rb"|use_(?:peft|vllm|liger\w*)|[bf]f?p?16|beta|packing|padding_free|optim|lr_scheduler_type"
    rb"|report_to)\b"
)
# Programs whose commands are recipes of their own; words are apart as in a shell or in JSON.
_PROGRAMS = (
    rb"(?:\b|\\n)(?:tune[\s\"',]+run|llamafactory-cli|lmf|axolotl"
    rb"|trl(?:[\s\"',]+|\.scripts\.)(?:sft|dpo|grpo|kto|orpo|cpo|reward|rloo))\b"
)
# All notebooks speak of Python, and most of a file of it.
_STARTING = lazy_pattern(rb"\b(?:os\.system|subprocess\.\w{3,12})\(")
_CELL_SCRIPT = lazy_pattern(rb"(?:!|%%)[^!]{1,4000}\.py\b")


def is_recipe_file(path: str) -> bool:
    """True if a file of this name may hold a recipe, as a document or in a command."""
    return is_document(path) or is_launch_file(path)


def is_document(path: str) -> bool:
    """True if a file of this name may be a recipe."""
    return path.endswith(DOCUMENTS)


def may_be_recipe(data: bytes) -> bool:
    """True if a file of these bytes has a word that every recipe has, and a recipe's size."""
    return len(data) <= MAX_BYTES and re.search(_WORDS, data) is not None


def may_hold_recipe(path: str, data: bytes) -> bool:
    """True if a file of this name and these bytes may hold a recipe, or start a script."""
    if len(data) > MAX_BYTES:
        return False
    if is_document(path):
        # The second: a recipe where a launch command names it.
        return may_be_recipe(data) or re.search(_OPTIONS, data) is not None
    return may_launch(data) or may_run_recipe(data)


def is_notebook_of_commands(path: str, data: bytes) -> bool:
    """True if it is a notebook whose cells may start a script or a program with settings, or a
    script that may start such a program."""
    if path.endswith(".py"):
        starts = b"os.system(" in data or b"subprocess." in data  # told in a tenth of the time
        return starts and _STARTING.search(data) is not None and may_run_recipe(data)
    return path.endswith(".ipynb") and (
        _CELL_SCRIPT.search(data) is not None or may_run_recipe(data)
    )


def may_run_recipe(data: bytes) -> bool:
    """True if launch commands in ``data`` may start a program that reads recipes."""
    return re.search(_PROGRAMS, data) is not None
