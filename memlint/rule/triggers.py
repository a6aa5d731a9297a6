"""Words without which a file has nothing of the libraries that rules report on."""

PACKAGES = ("transformers", "trl", "peft", "accelerate")

# Packages whose names and options are compared with their releases.
COMPARED = (*PACKAGES, "datasets")

# How a file runs a backward pass; functions of the kernels of libraries are called ``backward``.
BACKWARD = (
    *(".backward(", "manual_backward(", "forward_backward(", "backward_pass(", "import backward"),
)

# How a file shows that it runs a model, in a step of training or of an evaluation.
PASSES = (*BACKWARD, *("no_grad", "inference_mode", ".eval()", ".train(False)", "model(", "_step("))

# How a file shows that something is learned in it.
UPDATES = ("backward", "Trainer", "optim")

# How a file names what it imports: the beginning of a statement, or further in a list of modules.
# The usual ones come first: the search ends at the first that is found.
LIBRARIES = tuple(
    f"{before} {package}"
    for before in ("from", "import", ",")
    for package in (*PACKAGES, "memlint_runtime")
)

# How a file shows that it may hold a model twice.
COPIES = (*LIBRARIES, "deepcopy")

# How a file shows that it may make an optimizer, of a model that another file may load.
OPTIMIZERS = (*LIBRARIES, "optim.Adam", "import Adam")

# How a file shows that it trains, or makes something that another file may train with.
TRAINING = (
    *("Trainer", "backward(", "optim", "from_pretrained", "Arguments(", "Config("),
    *("cross_entropy", "CrossEntropyLoss", ".loss"),
)

# How a file shows that it may run a step of training, of a model that another file may load.
STEPS = (*LIBRARIES, ".backward(", ".logits", ".loss", "cross_entropy", "CrossEntropyLoss")

# How a file shows that it may load rows, for a model that another file may load.
LOADERS = (*LIBRARIES, "DataLoader(")

# How a file shows that it may tokenize rows, with a tokenizer that another file may load.
ROWS = (*LIBRARIES, "tokenizer(", "tokenizer.encode", "truncation=")
