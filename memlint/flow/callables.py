"""What functions and methods do with what they are given: one table for all who follow a value."""

# -- anything --------------------------------------------------------------------------------------

# Functions that show what they are given, or ask what it is, and keep nothing of it.
SHOWS = frozenset(
    {
        *("print", "pprint", "display", "repr", "str", "format", "len", "type", "id", "callable"),
        *("isinstance", "hasattr"),
    }
)
# Those that make a number of it.
COUNTS = frozenset({"float", "int", "bool", "round", "range"})
# Methods of loggers, writers and bars, whatever they are called on.
LOGS = frozenset(
    {
        *("log", "log_dict", "log_metric", "log_metrics", "add_scalar", "add_scalars", "write"),
        *("set_postfix", "set_postfix_str", "set_description", "writerow", "format", "join"),
        *("info", "debug", "warning", "warn", "error", "exception", "critical"),
    }
)
# Packages whose functions read what they are given, as numbers or as texts.
READING_PACKAGES = frozenset(
    {"wandb", "logging", "mlflow", "numpy", "math", "json", "statistics", "time", "pprint", "rich"}
)

# -- containers ------------------------------------------------------------------------------------

# Methods of lists and their like that put something in, or take it out.
FILLS = frozenset({"append", "extend", "insert", "appendleft"})
EMPTIES = frozenset({"clear", "pop", "popleft", "remove"})
# Methods of dicts that give their entries.
ENTRIES = frozenset({"get", "pop", "keys", "items", "values"})
# Functions whose result holds what they are given.
CARRIES = frozenset(
    {
        *("sum", "max", "min", "sorted", "list", "tuple", "set", "dict", "zip", "enumerate"),
        *("reversed", "iter", "next", "abs", "tqdm.tqdm", "tqdm.auto.tqdm", "copy.copy"),
    }
)
CARRYING_PACKAGES = frozenset({"torch", "accelerate", "transformers", "itertools"})

# -- tensors ---------------------------------------------------------------------------------------

# Functions that read a tensor, and attributes and methods without its graph, or that do nothing
# with a list of them that others could read.
READS_TENSOR = frozenset(
    {"torch.is_tensor", "torch.save", "torch.isnan", "torch.isinf", "torch.isfinite"}
)
DETACHES = frozenset(
    {
        *("item", "detach", "detach_", "tolist", "data", "numpy", "shape", "dtype", "device"),
        *("size", "dim", "ndim", "numel", "requires_grad", "is_leaf", "isnan", "isinf", "isfinite"),
        *("append", "clear", "remove", "keys", "format", "argmax", "argmin", "register_hook"),
        *("zero_", "retain_grad", "element_size", "startswith", "endswith", "index", "count"),
    }
)
# Methods that need a graph, and attributes that do not tell of one.
OF_GRAPHS = frozenset({"retain_grad", "register_hook"})
OF_ANY_TENSOR = frozenset(
    {"data", "shape", "dtype", "device", "ndim", "T", "mT", "real", "is_cuda", "values", "indices"}
)
# Methods of a tensor that give one with the same graph, or more of it.
KEEPS_GRAPH = frozenset(
    {"mean", "sum", "float", "clone", "squeeze", "view", "reshape", "double", "to", "cpu", "cuda"}
)
# Methods of accelerators, scalers and tensors whose result has the graph of what they are given.
PASSES_GRAPH = frozenset(
    {
        *("scale", "gather", "gather_for_metrics", "reduce", "all_reduce", "add", "add_", "sub"),
        *("mul", "div", "new_tensor", "where", "lerp", "copy_"),
    }
)
# What hands a tensor on, whole or in part, and reads none of its numbers by itself.
PASSES_NUMBERS = frozenset(
    {
        *("float", "to", "type", "double", "half", "bfloat16", "contiguous", "view", "reshape"),
        *("arithmetic", "div", "mul", "cuda", "squeeze", "unsqueeze"),
    }
)
# Operations that work on each position by itself, and keep their order.
BY_POSITION = frozenset(
    {
        *("log_softmax", "softmax", "gather", "float", "to", "contiguous", "squeeze", "unsqueeze"),
        *("arithmetic", "div", "mul", "neg"),
    }
)
# Functions of a library that take derivatives.
DERIVATIVES = ("torch.autograd.grad", "torch.autograd.functional", "torch.func")
# Methods that a trainer runs in every step, and backward with what they return.
HOOKS = ("training_step", "compute_loss")

# -- rows of data ----------------------------------------------------------------------------------

# What returns the rows that it is given, or loads them.
RETURNS_ROWS = frozenset(
    {"DataLoader", "prepare", "concatenate_datasets", "interleave_datasets", "DatasetDict", "tqdm"}
    | {"enumerate", "iter", "next", "list", "Subset", "ConcatDataset", "zip", "cycle"}
)
MAPS = frozenset({"map", "with_transform", "set_transform"})
EVALUATES = frozenset({"predict", "evaluate"})
GENERATES = frozenset({"generate", "pipeline", "batch_generate"})
STEPS = frozenset({"backward", "train_step", "training_step"})
