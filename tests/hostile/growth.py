# ruff: noqa: E501
"""What grows: pieces of each language, and the ways in which they are put together."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

HEAD = "import torch\nfrom trl import SFTConfig, SFTTrainer\nfrom functools import partial\n"
MODEL = "from transformers import AutoModelForCausalLM\nmodel = AutoModelForCausalLM.from_pretrained('gpt2')\n"
TAIL = "SFTTrainer('gpt2', args=SFTConfig('o', max_seq_length=v), train_dataset=d).train()\n"


class Text(NamedTuple):
    """A text, and the way in which it grew."""

    way: str
    text: str


# Each makes of ``v`` something twice as large, or a value of twice as many paths.
DOUBLINGS = (
    *("v = v + v", "v += v", "v = [v, v]", "v = (v, v)", "v = {'a': v, 'b': v}", "v = v * v"),
    *("v = f'{v}{v}'", "v = v * 2", "v = [*v, *v]", "v = {**v, **v}", "v = dict(v, a=v, b=v)"),
    *("v = '%s%s' % (v, v)", "v = '{}{}'.format(v, v)", "v = ''.join([v, v])", "v = v ** 9"),
    *("v = v if c else [v, v]", "v = f(v, v)", "v = partial(f, v, v)", "v.append(v)", "v |= v"),
    *("v.update(a=v, b=v)", "v = lambda x=v: (v, v)", "v = v << 64", "v = str(v) + str(v)"),
    *("v = torch.cat([v, v])", "v = v.view(-1) + v.float()", "v = torch.where(c, v, v)"),
    *("v = model(v).logits + model(v).logits", "v = v[:] + v[:]", "v = {v: v, (v, v): v}"),
    *("if c:\n    v = (v, 1)\nelse:\n    v = (v, 2)", "for v in (v, v):\n    v = [v]", "v = v, v"),
    *("try:\n    v = (v, 0)\nexcept E:\n    v = [v, v]", "v = [v for v in (v, v)]", "v = -v * v"),
    *("v = (v, v) and (v, v) or v", "v = {'a': v} | {'b': v}", "v = SFTConfig(v, max_length=v)"),
    *("class v(v, v):\n    a = v", "def v(a=v, b=v):\n    return v(a), v(b)", "v = int(f'{v}{v}')"),
)
STARTS = ("'x'", "1", "[1]", "{'a': 1}", "model(b).logits", "f", "3.5", "d", "SFTConfig('o')")
# (opening, closing): nested in each other.
NESTS = (
    *(("(", ")"), ("[", "]"), ("{1: ", "}"), ("-", ""), ("not ", ""), ("lambda: ", "")),
    *(("f(", ")"), ("x.a", ""), ("x[", "]"), ("f(a=", ")"), ("1 if c else ", ""), ("1 + ", "")),
    *(
        ("a and ", ""),
        ("a < ", ""),
        ("'a' ", ""),
        ("a.f().", "b"),
        ("*", ""),
        ("~", ""),
        ("a@", ""),
    ),
    *(("[x for x in ", "]"), ("(yield ", ")"), ("await ", ""), ("f'{", "}'"), ("a := (", ")")),
    *(
        ("1, ", ""),
        ("'a' + ", ""),
        ("a.b.", "c"),
        ("a ** ", ""),
        ("(lambda x: ", ")(1)"),
        ("{*", "}"),
    ),
)
LINES = (
    *("x = 1", "f(a)", "def f{i}(): pass", "x = lambda: 0", "class C{i}: pass", "import a{i}"),
    *(
        "class C{i}(C{j}): pass",
        "def f{i}(x): return f{j}(x) + f{j}(x)",
        "def f{i}(): f{j}(); f{j}()",
    ),
    *("v = {**v, 'k{i}': 1}", "v.append({i})", "v['k{i}'] = {i}", "x{i} = x{j}", "v = v, {i}"),
    *(
        "t{i} = SFTTrainer('gpt2', args=SFTConfig('o'), train_dataset=d)",
        "c = SFTConfig('o', packing=True)",
    ),
    *(
        "# memlint: ignore",
        "x = 1  # memlint: ignore[MEM101]",
        "global x",
        "x: int = 1",
        "del x{j}",
    ),
    *(
        "if c: x = {i}",
        "for i in r: x = x + 1",
        "while c: v = f(v)",
        "with a: v = 1",
        "assert x, v",
    ),
    *("p.add_argument('--a{i}', default={i})", "m = AutoModelForCausalLM.from_pretrained('gpt2')"),
    *(
        "model(**b).loss.backward()",
        "loss = model(**b).loss",
        "total += loss",
        "v = torch.cat([v, x{j}])",
    ),
    *(
        "try: x = 1\nexcept E: x = {i}",
        "match v:\n  case {i}: v = {i}",
        "return v",
        "@f",
        "",
        " ",
        "#",
        "\\",
    ),
    *(
        "x = ",
        "(",
        ")",
        "'",
        '"""',
        "%pip install trl=={i}",
        "!ls",
        "print 'a'",
        "\f",
        "x{i}.y{j} = v",
    ),
    *(
        "setattr(v, 'a{i}', v)",
        "v = getattr(v, 'a{i}')",
        "from a{i} import *",
        "x = {i}" + "0" * 80,
    ),
    *(
        "if c:\n    x{i} = v\nelse:\n    v = x{j}",
        "d = d.map(lambda r: f{i}(r))",
        "v = v or x{j}",
        "a;a;a;a",
    ),
)
PIECES = (
    *(
        "a",
        "1",
        " ",
        "\t",
        "#",
        "'",
        '"',
        "\\",
        "(",
        "[",
        "{",
        ")",
        "]",
        "}",
        ",",
        ":",
        ";",
        "=",
        "-",
    ),
    *(
        "&a ",
        "*a ",
        "<<: ",
        "- ",
        "? ",
        ": ",
        "| ",
        "!!",
        "!a ",
        "%",
        "$",
        "$$",
        "${a}",
        "$(a)",
        "`",
    ),
    *(
        "a.",
        "a/",
        "../",
        "*",
        "**/",
        "?",
        "[a-z]",
        "\\\n",
        "\r",
        "\n",
        "a\n",
        "a: ",
        "a=1 ",
        "--a ",
        "<<",
    ),
    *(
        "\u2028",
        "é",
        "\0",
        "\x1b[0m",
        "{{",
        "}}",
        "@",
        "~",
        "^",
        "|",
        "&&",
        "//",
        "0x",
        "1e",
        "1_",
        ".py",
    ),
)
SHELL_DOUBLINGS = (
    *('a="$a$a"', "a=$a$a", 'a+="$a"', "a=($a $a)", "a=${a:-$a}", "a=$(echo $a$a)", "eval a=$a$a"),
    *(
        "export a=$a:$a",
        "for a in $a $a; do",
        "f() { f; f; }",
        "a=${a//a/aa}",
        "set -- $a $a",
        "a=`echo $a$a`",
    ),
)
SHELL_NESTS = (
    *(
        ("$(", ")"),
        ("${a:-", "}"),
        ("(", ")"),
        ("{ ", ";}"),
        ("`", "`"),
        ('"$(', ')"'),
        ("$((", "))"),
    ),
    *(
        ("if a; then ", "; fi"),
        ("for a in b; do ", "; done"),
        ("case a in a) ", ";; esac"),
        ("[[ ", " ]]"),
    ),
    *(
        ("bash -c '", "'"),
        ("nohup ", ""),
        ("env a=1 ", ""),
        ("a | ", ""),
        ("a && ", ""),
        ("\\\n", ""),
    ),
)
SHELL_LINES = (
    *(
        "trl sft --config r.yaml --a{i} {i}",
        "tune run lora_finetune_single_device --config r.yaml a{i}={i}",
    ),
    *(
        "llamafactory-cli train r.yaml",
        "accelerate launch s.py --a{i} $x{j}",
        "x{i}=$x{j}$x{j}",
        "cd a{i}",
    ),
    *(
        "axolotl train r.yaml --b {i}",
        "torchrun --nproc_per_node=8 s.py",
        "source b.sh",
        "cat <<E{i}\na\nE{i}",
    ),
    *(
        "python s.py --config=$x{j} \\",
        "a{i}() { a{j}; a{j}; }",
        "# memlint: ignore",
        "export x{i}",
        "x{i}=(1 2)",
    ),
    *(
        "deepspeed --num_gpus 2 s.py --deepspeed ds.json",
        "[ -f a ] && x{i}=1 || x{i}=$x{j}",
        "set -- $@ $@",
    ),
)
RECIPES = (
    "model_name_or_path: x\nstage: sft\nfinetuning_type: lora\ntemplate: llama3\ndataset: a\n"
    "per_device_train_batch_size: 1\ncutoff_len: 512\n",
    "model:\n  _component_: torchtune.models.llama3.lora_llama3_8b\ntokenizer:\n  _component_: a.b\n"
    "dataset:\n  _component_: torchtune.datasets.alpaca_dataset\nbatch_size: 2\nepochs: 1\n",
    "base_model: NousResearch/Llama-3.2-1B\ndatasets:\n  - path: a\n    type: alpaca\nadapter: lora\n"
    "sequence_len: 2048\nmicro_batch_size: 2\n",
    "model_name_or_path: Qwen/Qwen2.5-0.5B\ndataset_name: trl-lib/Capybara\nmax_length: 512\npacking: true\n",
)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity "
    "of 23.65 GiB of which 1.20 GiB is free. Of the allocated memory 20.01 GiB is allocated by PyTorch, "
    "and 3.00 GiB is reserved by PyTorch but unallocated."
)
LOG_PIECES = (
    *(
        "Tried to allocate 2.32 GiB ",
        "Tried to allocate ",
        "tried ",
        "File ",
        ".py",
        '"',
        "GPU 0 ",
        "[rank1]: ",
    ),
    *(
        "max_length",
        "=",
        ": ",
        "modeling_",
        "modeling_a/",
        "model: ",
        "model_id=",
        "--model ",
        "a-1b ",
        "a1/b-",
    ),
    *(
        "load_in_4bit ",
        "zero_3 ",
        "'stage': ",
        "trainable params: ",
        "1,",
        "000,",
        'File "a.py", line 1 ',
    ),
    *(
        "│ ",
        "❱ ",
        "----",
        "> ",
        "E  ",
        "~^",
        "Failed to clone() tensor",
        "Warning: ",
        "_proj",
        "GiB ",
        "1.1",
    ),
    *(
        "alibi",
        "Params4bit",
        "logits = ",
        "step 1/2\r",
        "[rank",
        "micro_batch_size",
        "CUDA out of memory. ",
    ),
)


def grown(rng: Random, pieces: tuple[str, ...], length: int) -> str:
    """One or two pieces over and over, some thousand characters."""
    one = rng.choice(pieces)
    other = rng.choice(pieces) if rng.random() < 0.5 else ""
    return (one + other) * max(1, length // max(1, len(one + other)))


def lines(rng: Random, kinds: tuple[str, ...], length: int) -> str:
    """A kind of line over and over, numbered."""
    kind = rng.choice(kinds)
    count = max(2, length // (len(kind) + 3 * kind.count("{") + 1))
    return "".join(
        kind.replace("{i}", str(i)).replace("{j}", str(i - 1)) + "\n" for i in range(1, count)
    )


def nested(rng: Random, nests: tuple[tuple[str, str], ...], depth: int) -> str:
    """Something within itself."""
    opening, closing = rng.choice(nests)
    return opening * depth + "1" + closing * depth


def python(rng: Random) -> Text:
    """A script."""
    size = rng.choice((10_000, 100_000, 400_000, 800_000, 1_900_000))
    start = f"v = {rng.choice(STARTS)}\n"
    way = rng.choice(("doubling", "nesting", "repetition", "repetition", "pieces"))
    if way == "doubling":
        times = rng.choice((30, 80, 300, 3_000))
        body = f"{rng.choice(DOUBLINGS)}\n" * times
        if rng.random() < 0.3:
            body += f"{rng.choice(DOUBLINGS)}\n" * times
    elif way == "nesting":
        depth = rng.choice((50, 150, 900, 3_000, 30_000))
        body = f"v = {nested(rng, NESTS, depth)}\n"
        if rng.random() < 0.3:
            line = rng.choice(("if c:", "for v in v:", "def f(v):", "class C:", "with c as v:"))
            body = "".join(" " * i + line + "\n" for i in range(95)) + " " * 95 + "v = 1\n"
    elif way == "pieces":
        body = f"v = {rng.choice(('', chr(39), chr(34) * 3, '#'))}{grown(rng, PIECES, size)}\n"
    else:
        body = lines(rng, LINES, size)
        if rng.random() < 0.3:
            body = "def g(v):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    cookie = f"# coding: {grown(rng, COOKIES, 9)}\n" if rng.random() < 0.05 else ""
    return Text(way, f"{cookie}{HEAD}{MODEL}{start}{body}{TAIL}")


COOKIES = (
    "undefined",
    "punycode",
    "idna",
    "utf-7",
    "hex",
    "a" * 100_000,
    "utf_16",
    "mbcs",
    "cp037",
)


def yaml(rng: Random) -> Text:
    """A recipe in YAML, or what is thought to be one."""
    size = rng.choice((1_000, 10_000, 100_000, 250_000))
    head = rng.choice(RECIPES)
    way = rng.choice(("doubling", "merging", "nesting", "repetition", "pieces"))
    if way == "doubling":
        fan, deep = rng.choice((2, 9, 30)), rng.choice((8, 30, 200))
        form = rng.choice(("[{}]", "{{{}}}"))
        body = "a0: &a0 1\n"
        for i in range(1, deep):
            parts = [f"*a{i - 1}" if form[0] == "[" else f"k{n}: *a{i - 1}" for n in range(fan)]
            body += f"a{i}: &a{i} {form.format(', '.join(parts))}\n"
        body += f"{rng.choice(('cutoff_len', 'model', 'datasets', 'x'))}: *a{deep - 1}\n"
    elif way == "merging":
        fan, deep = rng.choice((1, 2, 9, 30)), rng.choice((8, 30, 200, 3_000))
        own = rng.choice(("", ", y{i}: 1", ", <<: {{z{i}: 1}}"))
        body = "a0: &a0 {x0: 1}\n"
        for i in range(1, deep):
            parts = ", ".join([f"*a{i - 1}"] * fan)
            body += f"a{i}: &a{i} {{<<: [{parts}]{own.replace('{i}', str(i))}}}\n"
        body += f"<<: *a{deep - 1}\n"
    elif way == "nesting":
        depth = rng.choice((39, 41, 1_000, 50_000))
        nests = (("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", ""), ("!a ", ""), ("&a ", ""))
        body = f"x: {nested(rng, nests, depth)}\n"
    elif way == "pieces":
        key = rng.choice(("x", "cutoff_len", "max_length", "<<", "batch_size"))
        body = f"{key}: {rng.choice(('', chr(39), chr(34), '|', '['))}{grown(rng, PIECES, size)}\n"
    else:
        kinds = (
            *("k{i}: {i}", "x: 1", "k{i}: ${k{j}}${k{j}}", "- a", "# memlint: ignore", "k{i}: *a"),
            *(
                "k{i}: &a{i} x",
                "a{i}: {<<: *a{j}}",
                "k{i}:\n  - k{j}",
                "---",
                "k{i}: 1:1:1",
                "? k{i}",
            ),
        )
        body = lines(rng, kinds, size)
    return Text(way, head + body if rng.random() < 0.8 else body + head)


def json(rng: Random) -> Text:
    """An object of settings in JSON."""
    size = rng.choice((1_000, 10_000, 100_000, 250_000, 2_000_000))
    way = rng.choice(("nesting", "repetition", "digits", "pieces"))
    if way == "nesting":
        value = nested(rng, (("[", "]"), ('{"a": ', "}"), ("[1, ", "]"), ("[[", "]]")), size // 7)
    elif way == "digits":
        value = rng.choice(("9", "-1", "0.1", "1e9", "1E+", "0x1")) + rng.choice("0179") * size
    elif way == "pieces":
        value = f'"{grown(rng, PIECES, size)}"' if rng.random() < 0.5 else grown(rng, PIECES, size)
    else:
        entry = rng.choice(('"a{i}": {i}', '"a": 1', '"a{i}": [{i}]', '"model_type": "llama"'))
        count = size // len(entry)
        value = "{" + ", ".join(entry.replace("{i}", str(i)) for i in range(count)) + "}"
    key = rng.choice(JSON_KEYS)
    head = '"model_name_or_path": "x", "zero_optimization": {"stage": 3}, "model": "gpt2"'
    tail = rng.choice((" ", "\n", "")) * size
    return Text(way, f'{{{head}, "{key}": {value}}}{tail}')


JSON_KEYS = (
    *(
        "x",
        "micro_batch",
        "seq_len",
        "model",
        "hidden_size",
        "num_hidden_layers",
        "vocab_size",
        "lora",
    ),
    *("train_micro_batch_size_per_gpu", "per_device_train_batch_size", "max_length", "world_size"),
)


def toml(rng: Random) -> Text:
    """A configuration in TOML."""
    size = rng.choice((1_000, 10_000, 100_000, 1_000_000))
    way = rng.choice(("nesting", "repetition", "digits", "globs", "pieces"))
    if way == "nesting":
        body = (
            f"exclude = {nested(rng, (('[', ']'), ('{a = ', '}'), ('{a.', 'b=1}')), size // 3)}\n"
        )
    elif way == "digits":
        body = f"x = {rng.choice(('1', '0x', '1.', '1e', '-'))}{'1' * size}\n"
    elif way == "globs":
        stars = grown(
            rng, ("*a", "**/", "?", "*", "[a-z]*", "a/", "\\", "{a,b}"), min(size, 10_000)
        )
        body = f"exclude = ['{stars}']\n[tool.memlint.per-file-ignores]\n'{stars}b' = ['MEM1']\n"
    elif way == "pieces":
        body = f"x = '{grown(rng, PIECES, size)}'\n{grown(rng, PIECES, size)}\n"
    else:
        kinds = (
            "k{i} = {i}",
            "[a{i}.b]",
            "a.b{i}.c = 1",
            "[[a]]",
            "# a",
            "select = ['MEM{i}']",
            "x = '''",
        )
        body = lines(rng, kinds, size)
    return Text(way, f"[tool.memlint]\n{body}")


def pins(rng: Random) -> Text:
    """Requirements, locks and manifests."""
    size = rng.choice((1_000, 30_000, 300_000))
    kinds = (
        *(
            "trl=={i}.{j}",
            "trl>={i},<{j}",
            "-r r.txt",
            "-r a{i}.txt",
            "trl[a] @ git+https://a/trl@v{i}",
        ),
        *(
            'name = "trl"\nversion = "{i}.{j}"',
            "trl",
            "ARG V{i}=$V{j}$V{j}",
            "trl==" + "1." * 60,
            "- trl={i}",
        ),
        *(
            "[package.a{i}]",
            "RUN pip install trl==$V{j}",
            "trl ; python_version<'{i}'",
            "trl==1!{i}+a.{i}",
        ),
    )
    heads = ("trl==", "trl" + " ", "trl>=1" + ",", "name = ", "trl==1.", "trl[", "trl @ ", "-r ")
    if rng.random() < 0.5:
        return Text("repetition", lines(rng, kinds, size))
    return Text("pieces", rng.choice(heads) + grown(rng, PIECES, size))


def shell(rng: Random) -> Text:
    """Launch commands."""
    size = rng.choice((1_000, 10_000, 100_000, 250_000))
    way = rng.choice(("doubling", "nesting", "repetition", "pieces"))
    if way == "doubling":
        body = "a=aa\n" + f"{rng.choice(SHELL_DOUBLINGS)}\n" * rng.choice((30, 80, 1_000, 5_000))
    elif way == "nesting":
        body = f"x={nested(rng, SHELL_NESTS, rng.choice((50, 1_000, 20_000)))}\n"
    elif way == "pieces":
        body = f"x={rng.choice(('', chr(39), chr(34)))}{grown(rng, PIECES, size)}\n"
    else:
        body = lines(rng, SHELL_LINES, size)
    end = "trl sft --model_name_or_path $a --max_length $x --dataset_name d\npython s.py --a $a\n"
    return Text(way, body + end)


def make(rng: Random) -> Text:
    """A Makefile."""
    way, body = shell(rng)
    rules = body.replace("\n", "\n\t").replace("$", rng.choice(("$", "$$")))
    kinds = (
        "V{i} := $(V{j})$(V{j})",
        "V{i} = $(V{j}) $(V{j})",
        "V += $(V)",
        "t{i}: t{j} t{j}",
        "include a",
    )
    return Text(way, f"{lines(rng, kinds, rng.choice((200, 4_000, 60_000)))}all:\n\t{rules}\n")


def just(rng: Random) -> Text:
    """A justfile."""
    way, body = shell(rng)
    kinds = (
        "v{i} := v{j} + v{j}",
        "v{i} := '{i}'",
        "export v{i} := ''",
        "v{i} := `a`",
        "set a := true",
        "t{i}: t{j}",
    )
    return Text(
        way,
        f"{lines(rng, kinds, rng.choice((200, 4_000, 60_000)))}all:\n  "
        + body.replace("\n", "\n  "),
    )


def docker(rng: Random) -> Text:
    """A Dockerfile."""
    way, body = shell(rng)
    kinds = (
        "ENV V{i}=$V{j}$V{j}",
        "ARG V{i}=${V{j}:-$V{j}}",
        "RUN a{i} \\",
        "COPY a b",
        "FROM a AS b{i}",
        "ENTRYPOINT [",
    )
    form = rng.choice(("RUN ", "CMD ", 'CMD ["', "RUN <<E\n", "SHELL ", "ENTRYPOINT "))
    return Text(way, f"FROM a\n{lines(rng, kinds, rng.choice((200, 4_000, 60_000)))}{form}{body}")


def log(rng: Random) -> Text:
    """What a run printed before it was out of memory."""
    size = rng.choice((10_000, 100_000, 1_000_000, 6_000_000))
    one = grown(rng, (*LOG_PIECES, *PIECES), size)
    way = rng.choice(("before", "behind", "within", "lines", "alone"))
    texts = {
        "before": f"{one}\n{OOM}\n",
        "behind": f"{OOM} {one}\n",
        "within": OOM.replace(rng.choice(("2.32", "GPU 0", "Tried ", "free", "of ")), one, 1),
        "lines": f"{one[:60]}\n" * (size // 61) + OOM,
        "alone": f"{one}{OOM}{one}\n{one}",
    }
    return Text(way, texts[way])
