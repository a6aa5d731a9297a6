"""What a function that prepares rows is written to do with them: labels, lists, cuts by hand."""

import ast
import math
from collections.abc import Iterator

from memlint.engine.name_uses import stores
from memlint.engine.nodes import called_name, calls_in, last_name, walk
from memlint.engine.usage import Usage
from memlint.engine.values import FunctionNode
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple

# Attributes that lists do not have.
_OF_TENSORS = frozenset({"clone", "squeeze", "shape", "size", "tolist", "flatten"})

# What makes a tensor of a size, and how one of token ids is told.
_ALLOCATING = frozenset({"full", "zeros", "ones", "new_full", "new_zeros", "new_ones"})
_OF_IDS = lazy_pattern(r"\blong\b|int64|pad_token|eos_token")
# What gives a place in a list.
_PLACES = frozenset({"next", "index", "find", "len", "min"})
# How long a list or a tensor is.
_LENGTH = lazy_pattern(r"\blen\(|\.shape\[|\.size\(")


def functions_given(call: ast.Call) -> Iterator[ast.AST | str]:
    """Yield the functions that a call gets: lambdas, and the names of others: ``tokenize``,
    ``self.tokenize``, one that a lambda calls, one in a ``partial``."""
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        yield from _functions(argument)


def _functions(argument: ast.expr) -> Iterator[ast.AST | str]:
    match argument:
        case ast.Name() | ast.Attribute():
            yield last_name(argument)
        case ast.Lambda(body=body):
            yield argument
            yield from map(called_name, calls_in(body))
        case ast.Call(args=[first, *_]) if called_name(argument) == "partial":
            yield from _functions(first)


# -- labels ----------------------------------------------------------------------------------------


def makes_labels(holder: ast.AST | None, column: str = "labels") -> bool:
    """True if a function, or a class, gives its examples ``labels``, or a column of that name."""
    for node in walk([holder]) if holder is not None else ():
        match node:
            case ast.keyword(arg=name) if name == column:
                return True
            case ast.Dict(keys=keys) if any(_is_labels(key, column) for key in keys):
                return True
            case ast.Subscript(slice=key, ctx=ast.Store()) if _is_labels(key, column):
                return True
    return False


def becomes_labels(use: Usage) -> bool:
    """True if a value is stored as ``labels``."""
    match use.around:
        case ast.Assign(targets=[ast.Subscript(slice=key)]):
            return _is_labels(key)
    return _is_labels(use.by)


def labels_copy_inputs(function: ast.AST) -> bool:
    """True if a function gives labels, each a plain copy of the input ids."""
    values = [value for node in walk([function]) for value in _labels(node)]
    return bool(values) and all(_is_copy_of_inputs(value, function) for value in values)


def label_statements(function: ast.AST, whole: list[ast.Module]) -> list[ast.AST]:
    """The statements of a function that give its rows ``labels``; none where the whole names them
    in another place."""
    found: list[ast.AST] = [
        node
        for node in walk([function])
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and any(_labels(node))
    ]
    named = sum(isinstance(node, ast.expr) and _is_labels(node) for node in walk(whole))
    return found if named == len(found) else []


def _labels(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=[ast.Subscript(slice=slice_)], value=value) if _is_labels(slice_):
            yield value
        case ast.Dict(keys=keys, values=values):
            yield from (v for k, v in zip(keys, values, strict=True) if _is_labels(k))


def _is_labels(key: ast.expr | None, column: str = "labels") -> bool:
    return isinstance(key, ast.Constant) and key.value == column


def _is_copy_of_inputs(value: ast.expr, function: ast.AST, names: tuple[str, ...] = ()) -> bool:
    """True if it is a copy, or a list with one entry for each of theirs: ``-100`` for padding."""
    match value:
        case (
            ast.Call(func=ast.Attribute(value=inner, attr="copy"), args=[])
            | ast.Call(func=ast.Name(id="list") | ast.Attribute(attr="deepcopy"), args=[inner])
        ):
            return _is_copy_of_inputs(inner, function, names)
        case ast.ListComp(elt, [ast.comprehension(ast.Name(item), inner, ifs=[])]):
            row = elt.generators if isinstance(elt, ast.ListComp) else []
            whole = [(ast.unparse(one.iter), one.ifs) for one in row] in ([], [(item, [])])
            entry = isinstance(elt, ast.IfExp | ast.Name | ast.ListComp)
            return whole and entry and _is_copy_of_inputs(inner, function, names)
        case ast.Name(id=name) if name not in names:
            seen, bound = (*names, name), [*_bound_to(name, function)]
            return bool(bound) and all(_is_copy_of_inputs(one, function, seen) for one in bound)
        case ast.Name():
            return True
        case ast.Subscript(slice=ast.Constant(value="input_ids")) | ast.Attribute(attr="input_ids"):
            return True
    return False


def makes_pairs(function: ast.AST) -> bool:
    """True if a function speaks of chosen and rejected answers: a reward model's examples."""
    text = ast.unparse(function)
    return "chosen" in text and "rejected" in text


# -- lists and lengths -----------------------------------------------------------------------------


def speaks_of_tensors(function: ast.AST) -> bool:
    """True if a function uses torch, numpy or methods of tensors, or pads to a limit of its own."""
    for node in walk([function]):
        match node:
            case ast.Name(id="torch" | "np" | "numpy"):
                return True
            case ast.Attribute(attr=name) if name in _OF_TENSORS:
                return True
            # The text itself is tested or handed on.
            case ast.Compare() if "padding" in (text := ast.unparse(node)):
                if "max_length" in text:
                    return True
    return False


def cuts_by_hand(function: ast.AST | None) -> bool:
    """True if a function cuts what it tokenized, splits it or looks at its length."""
    for node in walk([function]) if function is not None else ():
        match node:
            case ast.Slice(upper=upper, lower=lower) if upper or lower:
                return True
            case ast.keyword(arg="return_overflowing_tokens"):
                return True
            # ``ids.view(-1, length)``
            case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[_, _]):
                return True
            # ``if len(ids) < limit:``
            case ast.Compare() if "len(" in ast.unparse(node):
                return True
    return False


def speaks_of_lengths(function: ast.AST) -> bool:
    """True if a function calls ``len``, or names something by that word."""
    for node in walk([function]):
        match node:
            case ast.Call(func=ast.Name(id="len")):
                return True
            case ast.Constant(value=str(word)) | ast.Attribute(attr=word) if "len" in word.lower():
                return True
    return False


def texts_a_row(function: ast.AST, given: ast.expr) -> int | None:
    """Return how many texts of each row a list joins: 2 for ``questions + answers``; None where
    that cannot be counted. function: what makes the list, or the loop over batches that does."""
    match given:
        case ast.BinOp(left=left, op=ast.Add(), right=right) if _is_list(function, given):
            counts = [texts_a_row(function, one) for one in (left, right)]
            return None if None in counts else sum(filter(None, counts))
        case ast.ListComp(generators=[_, *more]):
            return math.prod(len(getattr(one.iter, "elts", ())) for one in more) or None
        case ast.Name(id=name):
            added = (f"{name}.append", f"{name}.extend")
            grown = [one for one in calls_in(function) if ast.unparse(one.func) in added]
            bound = list(_bound_to(name, function))
            return None if len(grown) > 1 else texts_a_row(function, bound[0]) if bound else 1
    return 1


def _is_list(function: ast.AST, part: ast.expr) -> bool:
    """True if it certainly is a list, of the texts of a batch or of some of them."""
    match part:
        case ast.List() | ast.ListComp():
            return True
        case ast.Subscript(value=ast.Name(id=name)):
            return isinstance(function, ast.For) and stores(function.target, name)
        case ast.BinOp(left=left, right=right):
            return _is_list(function, left) or _is_list(function, right)
        case ast.Name(id=name):
            return any(_is_list(function, one) for one in _bound_to(name, function))
    return False


def _bound_to(name: str, function: ast.AST) -> Iterator[ast.expr]:
    for node in walk([function]):
        match node:
            case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
                yield value


class Cut(NamedTuple):
    """What is done to the length of a list by hand. size: the length. of: the list, where it is
    cut off. how: ``block``, ``turn`` (of a ``range`` with a step), ``cut off``, ``filled up``, or
    ``evened out``, to the longest of several."""

    how: str
    size: ast.expr
    node: ast.AST
    of: ast.expr | None = None


def kept_by_length(function: ast.AST) -> Iterator[Cut]:
    """Yield what a filter compares with the most that a row may have: ``len(ids) <= 512``."""
    for node in walk([function]):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for counted, sign, size in zip(sides, node.ops, sides[1:], strict=False):
                match counted, sign:
                    case ast.Call(ast.Name("len"), [of]), ast.Lt() | ast.LtE():
                        yield Cut("kept", size, node, of)


def cuts_of(function: ast.AST) -> Iterator[Cut]:
    """Yield what a function does to the lengths of lists by hand."""
    body = getattr(function, "body", [])
    for node in walk(body if isinstance(body, list) else [body]):
        match node:
            case ast.Subscript(
                slice=ast.Slice(lower=ast.expr() as low, upper=ast.BinOp(also, ast.Add(), size))
            ) if ast.unparse(low) == ast.unparse(also):
                yield _window(function, node, low, size)
            case ast.Subscript(
                slice=ast.Slice(
                    lower=ast.BinOp(op=ast.Mult(), right=size), upper=ast.BinOp(op=ast.Mult())
                )
            ):
                yield Cut("block", size, node)
            # ``data[i * n + k : (i + 1) * n + k]``
            case ast.Subscript(
                slice=ast.Slice(
                    lower=ast.BinOp(ast.BinOp(op=ast.Mult(), right=size), ast.Add(), low),
                    upper=ast.BinOp(ast.BinOp(op=ast.Mult()), ast.Add(), also),
                )
            ) if ast.unparse(low) == ast.unparse(also):
                yield Cut("block", size, node)
            case ast.Subscript(value=inner, slice=ast.Slice(lower=None, upper=upper)) if (
                upper is not None and not isinstance(upper, ast.UnaryOp)
            ):
                yield Cut("cut off", upper, node, inner)
            # ``ids[-n:]``
            case ast.Subscript(
                value=inner, slice=ast.Slice(lower=ast.UnaryOp(ast.USub(), size), upper=None)
            ):
                yield Cut("cut off", size, node, inner)
            case ast.Call(func=ast.Name(id="range"), args=[_, _, size]):
                yield Cut("turn", size, node)
            case ast.BinOp(ast.List(), ast.Mult(), missing) | ast.BinOp(
                missing, ast.Mult(), ast.List()
            ):
                yield from _filled(function, node, missing)
            # ``pad(ids, (0, length - len(ids)))``
            case ast.Call(args=[_, ast.Tuple(elts=[_, missing]), *_]) if called_name(node) == "pad":
                yield from _filled(function, node, missing)
            case ast.Assign() | ast.Call():
                yield from _made_longer(function, node)
            # ``while len(ids) < length: ids.append(pad)``
            case ast.While(
                test=ast.Compare(ast.Call(ast.Name("len"), [rows]), [ast.Lt()], [size]), body=body
            ) if ast.unparse(rows) in (grown := [*map(_adds_same, body)]) and None not in grown:
                yield _up_to(function, body[0], size)


def _window(function: ast.AST, node: ast.Subscript, start: ast.expr, size: ast.expr) -> Cut:
    """``row[start : start + size]``: a block, unless the place was looked for, as by
    ``row.index(answer)``."""
    bound = _bound_to(start.id, function) if isinstance(start, ast.Name) else [start]
    made_by = {last_name(getattr(one, "func", None)) for one in bound}
    if made_by and made_by <= _PLACES:
        return Cut("cut off", size, node, node.value)
    return Cut("block", size, node)


def _made_longer(function: ast.AST, node: ast.AST) -> Iterator[Cut]:
    """``pad_sequence(rows)``, and ``ids = torch.full((rows, length), pad)`` whose rows are written
    then."""
    match node:
        case ast.Call(args=[rows, *_]) if called_name(node) == "pad_sequence":
            yield Cut("evened out", rows, node)
        # ``torch.full((length - len(ids),), pad)``
        case ast.Call(args=[ast.Tuple(elts=[missing]) | (ast.BinOp() as missing), *_]) if (
            called_name(node) in _ALLOCATING
        ):
            yield from _filled(function, node, missing)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[_, *_]) as call) if (
            called_name(call) in _ALLOCATING and _OF_IDS.search(ast.unparse(call))
        ):
            sizes = _sizes(function, call)
            if sizes and _is_written_in_part(function, name):
                yield _up_to(function, call, sizes[-1])


def _sizes(function: ast.AST, call: ast.Call) -> list[ast.expr]:
    """The sizes that a call gives a tensor, in one argument or in several."""
    first = call.args[0]
    if isinstance(first, ast.Name):
        first = next(_bound_to(first.id, function), first)
    if isinstance(first, ast.Tuple | ast.List):
        return first.elts
    return [] if "full" in called_name(call) else call.args


def _is_written_in_part(function: ast.AST, name: str) -> bool:
    """True if the first entries of something, or of a row of it, are assigned to."""
    for node in walk([function]):
        match node:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=written), slice=key)]):
                last = key.elts[-1] if isinstance(key, ast.Tuple) and key.elts else key
                if written == name and isinstance(last, ast.Slice) and last.upper is not None:
                    return True
    return False


def _filled(function: ast.AST, node: ast.AST, missing: ast.expr) -> Iterator[Cut]:
    """What fills a list up, by how many entries are missing: ``length - len(ids)``."""
    if isinstance(missing, ast.Name):
        missing = next(_bound_to(missing.id, function), missing)
    match missing:
        case ast.Call(func=ast.Name(id="max"), args=[ast.Constant(), at_least]):
            yield from _filled(function, node, at_least)
        case ast.BinOp(size, ast.Sub(), there) if _LENGTH.search(_spelled(function, there)):
            yield _up_to(function, node, size)
        # ``length - len(ids) - 2``: less what marks the beginning and the end.
        case ast.BinOp(most, ast.Sub(), ast.Constant()):
            yield from _filled(function, node, most)


def _up_to(function: ast.AST, node: ast.AST, size: ast.expr) -> Cut:
    """What fills lists up to a length, which may be that of the longest."""
    return Cut("evened out" if "max(" in _spelled(function, size) else "filled up", size, node)


def _adds_same(statement: ast.stmt) -> str | None:
    """Return the list to which each turn of a loop adds the same entry: ``rows.append(pad)``."""
    match statement:
        case (
            ast.AugAssign(target=target, value=ast.List(elts=[added]))
            | ast.Assign(targets=[target], value=ast.BinOp(_, ast.Add(), ast.List(elts=[added])))
            | ast.Expr(ast.Call(ast.Attribute(value=target, attr="append"), [added]))
        ) if not any(isinstance(one, ast.Call | ast.Subscript) for one in walk([added])):
            return ast.unparse(target)
    return None


def _spelled(function: ast.AST, part: ast.expr) -> str:
    """The source of an expression, and of what its name is bound to."""
    bound = _bound_to(part.id, function) if isinstance(part, ast.Name) else ()
    return " ".join(ast.unparse(one) for one in (part, *bound))


def joins_and_cuts(function: FunctionNode) -> bool:
    """True if a function lays the rows of each column end to end and cuts them into equal blocks:
    what run_clm calls ``group_texts``."""
    joins = cuts = False
    for node in walk([function]):
        match node:
            case ast.Call(func=ast.Name(id="sum"), args=[_, ast.List(elts=[])]):
                joins = True
            case ast.Call(
                func=ast.Name(id="chain") | ast.Attribute(attr="chain" | "from_iterable")
            ):
                joins = True
            case ast.Slice(lower=ast.Name(id=start), upper=ast.BinOp(left=ast.Name(id=end))):
                cuts |= start == end
    return joins and cuts
