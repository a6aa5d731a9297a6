"""Launch commands: what they start, with which settings, and where each value is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memlint.recipes.launch import Command, Flag, commands_in, kind_of, read_commands
from memlint.recipes.launch_files import READERS
from memlint.source.reading import read_source
from tests.examples import examples


def the(text: str, kind: str = "shell") -> Command:
    (command,) = read_commands(text, kind)
    return command


def values(flags: tuple[Flag, ...]) -> dict[str, Any]:
    return {flag.name: flag.value for flag in flags}


def written(text: str, flag: Flag | None) -> str:
    assert flag is not None
    return text.encode()[flag.span.start : flag.span.end].decode()


@pytest.mark.parametrize(
    ("line", "program", "kind", "target"),
    [
        ("python train.py", "python", "script", "train.py"),
        ("python3.11 -u -W ignore src/train.py", "python", "script", "src/train.py"),
        ("python -m pkg.train", "python", "module", "pkg.train"),
        ("torchrun --nproc_per_node 8 --standalone train.py", "torchrun", "script", "train.py"),
        ("torchrun --nnodes=1 -m pkg.train", "torchrun", "module", "pkg.train"),
        ("python -m torch.distributed.run --nproc-per-node 2 t.py", "torchrun", "script", "t.py"),
        ("python -m torch.distributed.launch --use_env t.py", "torchrun", "script", "t.py"),
        ("accelerate launch --multi_gpu train.py", "accelerate", "script", "train.py"),
        ("accelerate launch -m axolotl.cli.train c.yml", "accelerate", "recipe", "c.yml"),
        ("accelerate-launch --cpu train.py", "accelerate", "script", "train.py"),
        ("accelerate launch --no_python python t.py", "accelerate", "script", "t.py"),
        ("deepspeed --num_gpus 4 train.py --deepspeed d.json", "deepspeed", "script", "train.py"),
        ("trl sft --config c.yaml", "trl", "name", "sft"),
        ("tune run --nproc_per_node 2 full_x --config y", "tune", "name", "full_x"),
        ("llamafactory-cli train a.yaml", "llamafactory", "recipe", "a.yaml"),
        ("axolotl train a.yml --lora-r 8", "axolotl", "recipe", "a.yml"),
        ("CUDA_VISIBLE_DEVICES=0 nohup python train.py &", "python", "script", "train.py"),
        ("env -i A=b python train.py", "python", "script", "train.py"),
        ("srun --nodes=2 -n 4 torchrun train.py", "torchrun", "script", "train.py"),
        ("uv run --with trl python train.py", "python", "script", "train.py"),
        ("poetry run accelerate launch train.py", "accelerate", "script", "train.py"),
        ("docker run --gpus all image python train.py", "python", "script", "train.py"),
        ("/opt/conda/bin/python train.py", "python", "script", "train.py"),
        ("time timeout 3600 python train.py | tee log", "python", "script", "train.py"),
        ("make data && python train.py; echo done", "python", "script", "train.py"),
        ("if true; then python train.py; fi", "python", "script", "train.py"),
        ("(cd x && python train.py)", "python", "script", "train.py"),
        ("bash -c 'python train.py --a b'", "python", "script", "train.py"),
        ('srun bash -c "python train.py --a $B"', "python", "script", "train.py"),
        ("sbatch <<EOF\npython train.py\nEOF\n", "python", "script", "train.py"),
    ],
)
def test_what_is_started(line: str, program: str, kind: str, target: str) -> None:
    command = the(line)
    assert command.target is not None
    assert (command.program, command.target.kind, command.target.text) == (program, kind, target)


@pytest.mark.parametrize(
    "text",
    [
        "echo python train.py",
        "# python train.py",
        "pip install accelerate trl",
        "conda install python",
        "docker build -t python .",
        "tune download meta-llama/x",
        "llamafactory-cli export a.yaml",
        "axolotl preprocess a.yml",
        "python -c 'print(1)'",
        "python",
        "accelerate config",
        "cat <<EOF > run.sh\npython train.py\nEOF\n",
        "cat > x <<- 'END'\n\tpython train.py\n\tEND\n",
        "X='python train.py'",
    ],
)
def test_what_starts_nothing(text: str) -> None:
    assert read_commands(text, "shell") == ()


def test_settings_of_the_launcher_and_of_the_script() -> None:
    command = the(
        "accelerate launch --config_file c.yaml --num-processes=8 --mixed_precision bf16 \\\n"
        "  train.py --bf16 True --packing --names a b c --lr=1e-5 --beta -0.5 > log 2>&1"
    )
    assert values(command.launcher) == {
        "config_file": "c.yaml", "num_processes": "8", "mixed_precision": "bf16",
    }  # fmt: skip
    assert values(command.settings) == {
        "bf16": "True", "packing": True, "names": ("a", "b", "c"), "lr": "1e-5", "beta": "-0.5",
    }  # fmt: skip
    assert command.config_file == "c.yaml"
    assert command.num_processes == 8
    assert command.mixed_precision == "bf16"
    assert not command.has_unknown_arguments


def test_chosen_gpus_of_one_machine_are_counted() -> None:
    (one,) = read_commands("deepspeed --include localhost:0,1,2,3 train.py\n", "shell")
    (several,) = read_commands("deepspeed --include a:0,1@b:0,1 train.py\n", "shell")
    assert (one.num_processes, several.num_processes) == (4, None)


def test_overrides_and_removals() -> None:
    command = the("tune run lora --config llama3/8B_lora batch_size=4 ~optimizer.lr +model.x='a b'")
    assert command.recipe == "llama3/8B_lora"
    forms = {flag.name: (flag.value, flag.form) for flag in command.settings}
    assert forms == {
        "config": ("llama3/8B_lora", "option"),
        "batch_size": ("4", "override"),
        "optimizer.lr": (True, "removal"),
        "model.x": ("a b", "override"),
    }


def test_files_of_deepspeed() -> None:
    assert the("deepspeed t.py --deepspeed ds.json").deepspeed_file == "ds.json"
    launched = the("accelerate launch --deepspeed_config_file ds.json t.py")
    assert launched.deepspeed_file == "ds.json"
    assert the("python t.py --deepspeed $DS").deepspeed_file is None


# -- variables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("LR=1e-5\npython t.py --lr $LR", "1e-5"),
        ("LR=1e-5\npython t.py --lr ${LR}", "1e-5"),
        ("export LR='1e-5'\npython t.py --lr=\"$LR\"", "1e-5"),
        ("python t.py --lr ${LR:-1e-5}", "1e-5"),
        ("python t.py --lr ${1:-1e-5}", "1e-5"),
        ("LR=3\npython t.py --lr ${LR:-1e-5}", "3"),
        ("A=1\nLR=${A}e-5\npython t.py --lr $LR", "1e-5"),
        ("LR=1\nLR=2\npython t.py --lr $LR", "2"),
        ("python t.py --lr $LR", None),
        ("LR=$(cat lr)\npython t.py --lr $LR", None),
        ("LR=1\nif x; then LR=2; fi\npython t.py --lr $LR", None),
        ("LR=1\nx && LR=2\npython t.py --lr $LR", None),
        ("LR=1\nfor LR in 1 2; do python t.py --lr $LR; done", None),
        ("N=1\nwhile x; do python t.py --lr $N; N=$((N*2)); done", None),
        ("A=128\nB=4\npython t.py --lr $((A / B / ${B} + 2 * 3 - 1))", "13"),
        ('python t.py --lr "$(( 7 % 4 ))"', "3"),
        ("A=128\npython t.py --lr $((A / C))", None),
        ("python t.py --lr $((8 / 0))", None),
        ("python t.py --lr $((2 ** 3))", None),
        ("python t.py --lr $((2 * (3 + 1)))", None),
        ("python t.py --lr $((cat x))", None),
        ("LR=1\nread LR\npython t.py --lr $LR", None),
        ("python t.py --lr $1", None),
        ("python t.py --lr `cat x`", None),
        ("ARGS='--lr 1e-5 --b c'\npython t.py $ARGS", "1e-5"),
        ("ARGS=(--lr 1e-5\n --b c)\npython t.py \"${ARGS[@]}\"", "1e-5"),
        ("ARGS=(--b c)\nARGS+=(--lr 1e-5)\npython t.py ${ARGS[@]}", "1e-5"),
        ("ARGS='--b c'\nARGS+=' --lr 1e-5'\npython t.py $ARGS", "1e-5"),
        ("CMD='python t.py --lr 1e-5'\n$CMD", "1e-5"),
        ("CMD='python t.py --lr 1e-5'\neval \"$CMD\" || srun bash -c \"$CMD\"", "1e-5"),
    ],
)  # fmt: skip
def test_variables(text: str, value: str | None) -> None:
    flag = the(text).setting("lr")
    assert flag is not None
    assert flag.value == value


def test_arms_of_a_branch_are_apart() -> None:
    commands = read_commands(
        "if x; then LR=1; python t.py --lr $LR; else python t.py --lr $LR; fi", "shell"
    )
    assert [command.settings[0].value for command in commands] == ["1", None]


def test_unknown_words_may_bring_more_settings() -> None:
    assert the('python t.py --lr 1 "$@"').has_unknown_arguments
    assert the("python t.py --lr 1 $EXTRA").has_unknown_arguments
    assert not the("python t.py --lr $LR --b c").has_unknown_arguments
    assert the("torchrun $DISTRIBUTED t.py --lr 1").setting("lr") is not None


def test_the_environment() -> None:
    text = "export A=1\nB=2\nexport B\nC=3\nD=4 env E=5 python t.py"
    assert values(the(text).environment) == {"A": "1", "B": "2", "D": "4", "E": "5"}


def test_folders_are_followed() -> None:
    text = "cd examples/sft && python a.py\n(cd deep; python b.py)\npython c.py\ncd $X\npython d.py"
    folders = [command.folder for command in read_commands(text, "shell")]
    assert folders == ["examples/sft", "examples/sft/deep", "examples/sft", None]


@pytest.mark.parametrize(
    ("target", "folder"),
    [
        ('"$(dirname "$0")/.."', ".."),
        ('"$(dirname -- "${BASH_SOURCE[0]}")"', "."),
        ("$(dirname $0)/../examples", "../examples"),
        ('"$(dirname "$1")/.."', None),
        ('"$(dirname "$0")/$NAME"', None),
        ('"$(dirname "$0")/.."/"$(date)"', None),
    ],
)
def test_the_folder_of_the_script_itself_is_known(target: str, folder: str | None) -> None:
    (command,) = read_commands(f"cd {target}\npython train.py\n", "shell")
    assert command.folder == folder


def test_the_name_of_a_script_in_an_unknown_folder() -> None:
    target = the("python ${ROOT}/src/train.py").target
    assert target is not None
    assert (target.text, target.name) == (None, "train.py")


# -- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "span", "plain"),
    [
        ("python t.py --lr 1e-5", "1e-5", True),
        ("python t.py --lr=1e-5", "1e-5", True),
        ("python t.py --lr '1e-5'", "1e-5", True),
        ("python t.py --é ü --lr 1e-5", "1e-5", True),
        ("LR=1e-5\npython t.py --lr $LR", "1e-5", True),
        ("LR=1e-5\npython t.py --lr $LR; python s.sh $LR", "1e-5", False),
        ("LR=1\nLR=1e-5\npython t.py --lr $LR", "1e-5", True),
        ("LR=1e-5\npython t.py --lr $LR; echo $LR", "1e-5", False),
        ("LR=1e-5\nif x; then M=$LR; fi\npython t.py --lr $LR --m $M", "1e-5", False),
        ("LR=1e-5\npython t.py --lr $LR; python -m pip $LR", "1e-5", False),
        ("python t.py --lr ${LR:-1e-5}", "1e-5", True),
        ("A=(--lr 1e-5)\npython t.py ${A[@]}", "1e-5", True),
        ("python t.py --lr 'a b'", "a b", False),
        ("python t.py --lr x$Y", "x$Y", False),
        ("python t.py --lr", "--lr", False),
    ],
)
def test_where_a_value_is_written(text: str, span: str, plain: bool) -> None:
    flag = read_commands(text, "shell")[0].setting("lr")
    assert flag is not None
    assert (written(text, flag), flag.is_plain_word and not flag.readers) == (span, plain)


# -- other files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("run.sh", "shell"), ("a/job.slurm", "shell"), ("Makefile", "makefile"),
        ("x/GNUmakefile", "makefile"), ("rules.mk", "makefile"), ("justfile", "justfile"),
        ("Dockerfile.gpu", "dockerfile"), ("train.dockerfile", "dockerfile"),
        ("n.ipynb", "notebook"), ("train.py", "python"), ("makefile.txt", None),
    ],
)  # fmt: skip
def test_kinds_of_files(path: str, kind: str | None) -> None:
    assert kind_of(path) == kind


def test_a_makefile() -> None:
    text = (
        "LR = 1e-5\nN := 1\nN := 2\nOPTS ?= --bf16 True\n.PHONY: train\n"
        "train: data\n\t@echo start\n\tCUDA_VISIBLE_DEVICES=0 python t.py --lr $(LR) \\\n"
        "\t  $(OPTS) --n ${N} --h $$HOME --o $@\n"
    )
    command = the(text, "makefile")
    assert values(command.settings) == {
        "lr": "1e-5", "bf16": "True", "n": None, "h": None, "o": None,
    }  # fmt: skip
    assert written(text, command.setting("lr")) == "1e-5"
    assert values(command.environment) == {"CUDA_VISIBLE_DEVICES": "0"}


def test_a_justfile() -> None:
    text = (
        'lr := "1e-5"\nexport A := \'x\'\n\ntrain name="x": data\n    @python t.py --lr {{lr}} \\\n'
        "      --name {{ name }}\n\nother:\n    #!/usr/bin/env bash\n"
        "    X=1\n    python u.py --x $X\n"
    )
    first, second = read_commands(text, "justfile")
    assert values(first.settings) == {"lr": "1e-5", "name": None}
    assert values(first.environment) == {"A": "x"}
    assert written(text, first.setting("lr")) == "1e-5"
    assert values(second.settings) == {"x": "1"}


def test_a_dockerfile() -> None:
    text = (
        "FROM python:3.11\nENV LR=1e-5 \\\n    B=2\nRUN pip install trl\n"
        "RUN --mount=type=cache,target=/x python a.py --lr $LR\n"
        'ENTRYPOINT ["torchrun", "t.py", "--bf16", "True"]\nCMD python b.py\n'
    )
    first, second, third = read_commands(text, "dockerfile")
    assert values(first.settings) == {"lr": "1e-5"}
    assert (second.program, values(second.settings)) == ("torchrun", {"bf16": "True"})
    assert values(second.environment) == {"LR": "1e-5", "B": "2"}
    assert written(text, second.setting("bf16")) == "True"
    assert third.target is not None
    assert third.target.text == "b.py"


def notebook(*cells: str | list[str]) -> str:
    made = [{"cell_type": "code", "source": cell, "metadata": {}} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4}, ensure_ascii=False)


def test_a_notebook() -> None:
    text = notebook(
        "%env A=1\nx = 'é'\n",
        ["model = 3\n", "!python a.py --x {model} --y $z \\\n", '  --lr "1e-5" --é 2\n', "print()"],
        "%%bash\nLR=1e-6\npython b.py --lr $LR\n",
        "%%writefile run.sh\npython no.py",
        "print('!python no.py')",
    )
    source = read_source("n.ipynb", text.encode())
    first, second = commands_in(source)
    text = source.text
    assert {"x": None, "y": None, "lr": "1e-5"}.items() <= values(first.settings).items()
    assert values(first.environment) == {"A": "1"}
    assert written(text, first.setting("lr")) == "1e-5"
    assert values(second.settings) == {"lr": "1e-6"}
    assert written(text, second.setting("lr")) == "1e-6"
    assert second.setting("lr").is_plain_word  # type: ignore[union-attr]


# -- hostile text ---------------------------------------------------------------------------------

_PARTS = st.sampled_from(
    [
        *("python ", "t.py", "--a", " ", "\n", "$A", "${A:-b}", "${A[@]}", "A=", "A+=", "(", ")"),
        *("{", "}", "'", '"', "`", "$(", "$((", "<<E", "E\n", "\\", "\\\n", "if ", "then ", "fi"),
        *(
            "for x in",
            "do ",
            "done",
            "case ",
            "esac",
            ";;",
            "&&",
            "|",
            "#",
            ">",
            "[",
            "]",
            "é",
            "=",
        ),
        *(
            "{{A}}",
            "$$",
            "export ",
            "torchrun ",
            "tune run ",
            "~k",
            "-m ",
            "bash -c ",
            "RUN ",
            ":=",
        ),
        *("ENV ", "\t", "!", "%%bash\n", "\r\n", "\x00", "\ud800"),
    ]
)


@given(parts=st.lists(_PARTS, max_size=60), kind=st.sampled_from([*READERS, "notebook"]))
@example(parts=["python ", "${"] * 40, kind="shell")
@examples(600)
def test_no_text_stops_it(parts: list[str], kind: str) -> None:
    text = "".join(parts)
    if kind == "notebook":
        cells = [{"cell_type": "code", "source": "!python t.py " + text}]
        source = read_source("n.ipynb", json.dumps({"cells": cells}).encode())
        text, commands = source.text, commands_in(source)
    else:
        commands = read_commands(text, kind)
    data = text.encode("utf-8", "surrogatepass")
    for command in commands:
        for flag in (*command.launcher, *command.settings, *command.environment):
            assert 0 <= flag.span.start <= flag.span.end <= len(data)
            if flag.is_plain_word:
                place = data[flag.span.start : flag.span.end].decode("utf-8", "surrogatepass")
                assert place == flag.value


@pytest.mark.parametrize(
    "text",
    [
        "A=x\n" + "A=$A$A\n" * 200 + "python t.py --a $A",
        "A=x\n" * 10_000 + "python t.py " + "$A " * 10_000,
        "python t.py " + "${" * 20_000,
        "python t.py " + "$(" * 20_000,
        "python t.py " + "${A:-" * 20_000,
        "python t.py " + "\"'" * 20_000,
        "python t.py " + "<<E " * 20_000 + "\n" * 20_000,
        "export A=1\n" * 10_000 + "python t.py\n" * 1_000,
        "".join(f"export A{n}=1\n" for n in range(3_000)) + "python t.py\n" * 300,
        "if x; then A=1; " * 5_000 + "python t.py " + "; fi" * 5_000,
        "CMD='" + "python t.py; " * 5_000 + "'\n" + 'bash -c "$CMD"\n' * 2_000,
        "python " * 20_000,
        "env " * 50_000,
    ],
)
def test_growing_text_stays_small(text: str) -> None:
    read_commands(text, "shell")
    read_commands(text, "makefile")
