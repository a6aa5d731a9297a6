"""Where a new import may stand, which is a matter of what must run first.

It never goes above a docstring, ``__future__``, code that sets an environment variable (the
allocator reads its own when torch is imported), an import that is guarded by ``try`` or ``if``, and
never into a ``TYPE_CHECKING`` block.
"""

import re
from collections.abc import Iterator

import libcst as cst

from memlint.fix.bindings import Binding, Place, Scope, functions_of, is_visible
from memlint.fix.spans import Tree
from memlint.source import Span

Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement
# What must run before the imports below it; a masked line of a notebook may install or set things.
_SETS_UP = re.compile(
    r"\benviron\[[^\]]*\]\s*=(?!=)|\benviron\.(?:setdefault|update|pop)\b"
    r"|\b(?:putenv|unsetenv|load_dotenv|sys\.path)\b|^pass[ \t]*#"
)
# Whoever imports one of these has loaded torch, and what it reads from the environment.
_TORCH_FAMILY = frozenset({"torch", "transformers", "trl", "accelerate", "peft", "lightning"})
_LIBRARIES = _TORCH_FAMILY | {
    *("bitsandbytes", "datasets", "deepspeed", "evaluate", "huggingface_hub", "liger_kernel"),
    *("numpy", "omegaconf", "pandas", "sklearn", "tokenizers", "torchtune", "torchvision"),
    *("pytorch_lightning", "tqdm", "unsloth", "vllm", "wandb", "yaml"),
}
_WITH_TORCH = frozenset({"torch", "memlint_runtime"})


def import_anchor(
    tree: Tree, package: str, places: list[Place], known: list[Binding]
) -> Statement | None:
    """Return the statement behind which a new import of a package goes; None: it goes first.

    known: what the imports of the file bind. places: where the import is used.
    """
    return _inner_anchor(tree, package, places, known) or _module_anchor(
        tree, package, places, known
    )


def _inner_anchor(
    tree: Tree, package: str, places: list[Place], known: list[Binding]
) -> Statement | None:
    """Return where the function around all places, or a guard, imports the library itself."""
    related = [
        binding
        for binding in known
        if binding.full.partition(".")[0] == package
        and binding.kind in ("direct", "guarded")
        and all(is_visible(tree, binding, place) for place in places)
    ]
    if not related:
        return _set_up_before(tree, package, places, known) if places else None
    within = places and all(binding.scope is not None for binding in related)
    guarded = all(binding.kind == "guarded" for binding in related)
    return related[-1].statement if within or guarded else None


def _set_up_before(
    tree: Tree, package: str, places: list[Place], known: list[Binding]
) -> Statement | None:
    """What sets the environment around all places, for a library that the module does not load."""
    loaded = any(
        _loads(binding, package)
        for binding in known
        if binding.scope is None and binding.kind == "direct"
    )
    functions = functions_of(places[0].scopes)
    if loaded or not functions or not all(functions[0] in place.scopes for place in places):
        return None
    return _setup_in(tree, functions[0], min(place.offset for place in places))


def _setup_in(tree: Tree, function: Scope, limit: int) -> Statement | None:
    """Return the last statement of ``function`` before ``limit`` that sets the environment."""
    if not isinstance(function, cst.FunctionDef) or not isinstance(
        function.body, cst.IndentedBlock
    ):
        return None
    last = None
    for node in _statements(function.body.body):
        if tree.span(node).end > limit:
            break
        sets_up = _SETS_UP.search(tree.slice(tree.span(node)))
        if sets_up or (last is not None and isinstance(node, cst.Import | cst.ImportFrom)):
            last = node
    return last


def _loads(binding: Binding, package: str) -> bool:
    """True if what ``binding`` imports has loaded ``package`` or all that matters of it."""
    top = binding.full.partition(".")[0]
    return top == package or (package in _WITH_TORCH and top in _TORCH_FAMILY)


def _statements(body: object) -> Iterator[Statement]:
    """Yield the statements of a body, the last of those that share a line."""
    assert isinstance(body, list | tuple)
    for line in body:
        yield line.body[-1] if isinstance(line, cst.SimpleStatementLine) else line


def _module_anchor(
    tree: Tree, package: str, places: list[Place], known: list[Binding]
) -> Statement | None:
    outside = [place for place in places if not functions_of(place.scopes)]
    limit = min((place.offset for place in outside), default=len(tree.data))
    around = {above for place in outside for above in tree.ancestors(place.node)}
    head = _Head(tree, package, known)
    for number, node in enumerate(_statements(tree.module.body)):
        if tree.span(node).end > limit or node in around:
            break
        head.pass_by(node, first=number == 0)
    return head.related or head.library or head.last


class _Head:
    """A walk down a module, over what has to stay above a new import of ``package``.

    last: the last statement so far that has to. related: an import of the same package, behind
    which the new one reads best: the last at the head of the file, else the first below it.
    library: the last import of a library; the project's own modules come after those.
    """

    def __init__(self, tree: Tree, package: str, known: list[Binding]) -> None:
        self.last: Statement | None = None
        self.library: Statement | None = None
        self.related: Statement | None = None
        self._tree, self._package, self._known = tree, package, known
        # Whether no definition came yet, and whether the package has been loaded.
        self._is_open, self._is_loaded = True, False

    def pass_by(self, node: Statement, *, first: bool) -> None:
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self._is_open = False
        elif isinstance(node, cst.Import | cst.ImportFrom):
            self._pass_import(node)
        elif not self._is_loaded and _SETS_UP.search(self._lines(node)):
            # Once it is loaded, what is set comes too late for it anyway.
            self.last, self.library = node, None
        elif self._is_main(node):
            self._is_open = False
        elif (self._is_open and self._imports_inside(node)) or (first and _is_docstring(node)):
            self.last, self.library = node, None

    def _pass_import(self, node: cst.Import | cst.ImportFrom) -> None:
        here = [binding for binding in self._known if binding.statement is node]
        self._is_loaded |= any(_loads(binding, self._package) for binding in here)
        if self._is_open:
            self.last = node
            if any(binding.full.partition(".")[0] in _LIBRARIES for binding in here):
                self.library = node
        same = any(binding.full.partition(".")[0] == self._package for binding in here)
        if same and (self._is_open or self.related is None):
            self.related = node

    def _is_main(self, node: Statement) -> bool:
        return isinstance(node, cst.If) and "__name__" in self._tree.slice(
            self._tree.span(node.test)
        )

    def _imports_inside(self, node: Statement) -> bool:
        block = isinstance(node, cst.If | cst.Try | cst.TryStar | cst.With)
        return block and re.search(r"\bimport\b", self._lines(node)) is not None

    def _lines(self, node: Statement) -> str:
        span = self._tree.span(node)
        return self._tree.slice(Span(span.start, self._tree.line_end(span.end)))


def _is_docstring(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Expr) and isinstance(
        node.value, cst.SimpleString | cst.ConcatenatedString
    )
