"""Mutants of Python source: each place where one operator changes what a module does, by its syntax tree.

Left out is what cannot change behaviour, or only a text: annotations, decorators, assertions, the arguments of an
exception, logging, and the fields of models, whose schema comes from migrations. Strings are never changed.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
LOGGERS = {"log", "logger", "logging"}
TYPING_CALLS = {"TypeVar", "NewType", "NamedTuple", "TypedDict", "cast"}
GENERICS = {"dict", "list", "set", "tuple", "frozenset", "type"}
TEXT_NAMES = {"help", "help_text", "label", "title", "verbose_name", "description"}
INERT_FIELDS = {"annotation", "returns", "decorator_list", "bases"}
# How long something waits, how much a cache keeps, and where a warning points: no result depends on it.
IMPLEMENTATION_KEYWORDS = {"timeout", "timeout_s", "maxsize", "stacklevel", "strict"}

Node = TypeVar("Node", bound=ast.AST)
# Mutants that nobody could tell from the original: path, function, operator and ordinal, and why.
EQUIVALENT = {
    (
        "agents/layers/lvm_cache.py",
        "",
        "member",
        5,
    ): "LVM's versions have three numbers",
    (
        "agents/outputs/fio_aims.py",
        "",
        "member",
        111,
    ): "every version is at least 0, as it is at least 0.0",
    (
        "agents/outputs/fio_aims.py",
        "",
        "member",
        112,
    ): "every version is at least 0, as it is at least 0.0",
    ("agents/facts/device_uses.py", "uses", "boundary", 1): "a device never stands on itself",
    ("agents/readers/iostat.py", "_Reader._rows", "and/or", 2): "headings are no row either",
    ("benchlab/analysis/differences.py", "discoveries", "keyword", 4): "numpy's own default",
}


@dataclass(frozen=True)
class Place:
    """One mutant: `replacement` stands for the bytes from `start` to `end` of the file."""

    path: str
    function: str
    operator: str
    ordinal: int  # among those of the same function and operator
    line: int
    span: range  # lines of the statement, or of the function whose default it is
    names: frozenset[str]  # what a module or class binds with it
    before: str
    after: str
    start: int
    end: int
    replacement: str

    @property
    def identity(self) -> tuple[str, str, str, int]:
        return self.path, self.function, self.operator, self.ordinal

    @property
    def rank(self) -> str:
        """Its place in a sample, which stays the same while code around the function changes."""
        return hashlib.sha256(repr(self.identity).encode()).hexdigest()

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {_shorten(self.before)} -> {_shorten(self.after)}"


@dataclass(frozen=True)
class Change:
    """A node and what stands in its stead; `before` and `after` where the whole would hide the difference."""

    operator: str
    node: ast.expr | ast.stmt
    mutant: ast.AST
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Scope:
    """Where the walk is: the function, the statement, and the f-string, which is replaced as a whole."""

    function: str = ""
    span: range = range(0)
    names: frozenset[str] = frozenset()
    string: ast.expr | None = None
    local: bool = False  # within a function


def places_of(path: str, source: bytes) -> list[Place]:
    """All places of a module; its own syntax may still refuse a few of the mutants."""
    tree = ast.parse(source)
    starts, measures = _line_starts(source), _measures(tree)
    ordinals: Counter[tuple[str, str]] = Counter()
    places = []
    for scope, change in _walk(tree, Scope()):
        if change.operator == "boundary" and _is_measured(change.node, measures):
            continue
        key = (scope.function, change.operator)
        ordinals[key] += 1
        if place := _place(path, scope, change, ordinals[key], starts):
            places.append(place)
    return places


def sample(root: Path, places: Iterable[Place], size: int) -> list[Place]:
    """The first places by rank, of those whose mutants compile."""
    ranked = sorted(places, key=lambda place: place.rank)
    sound = (p for p in ranked if _compiles(p.apply((root / p.path).read_bytes())))
    return list(itertools.islice(sound, size))


def python_files(root: Path, package: str) -> list[str]:
    paths = (root / package).rglob("*.py")
    return sorted(str(p.relative_to(root)) for p in paths if "migrations" not in p.parts)


def _place(
    path: str, scope: Scope, change: Change, ordinal: int, starts: list[int]
) -> Place | None:
    container = scope.string or change.node
    try:
        replacement = ast.unparse(_substituted(container, change.node, change.mutant))
    except ValueError:  # a quotation mark within an f-string, which this Python cannot write
        return None
    if isinstance(container, ast.expr):
        replacement = f"({replacement})"
    return Place(
        path,
        scope.function,
        change.operator,
        ordinal,
        change.node.lineno,
        scope.span,
        scope.names,
        change.before or ast.unparse(change.node),
        change.after or ast.unparse(change.mutant),
        starts[container.lineno - 1] + container.col_offset,
        starts[container.end_lineno - 1] + container.end_col_offset,
        replacement,
    )


def _measures(tree: ast.Module) -> set[str]:
    """Names of a module's constants that are numbers with a fraction."""
    return {
        name
        for statement in tree.body
        if isinstance(statement, ast.Assign) and _is_fraction(statement.value)
        for name in _bound_names(statement)
    }


def _is_fraction(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def _is_measured(node: ast.AST, measures: set[str]) -> bool:
    """Whether a bound is one of measured values, which never lie on it exactly."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return bool(names & measures) or any(
        _is_fraction(part) for part in ast.walk(node) if isinstance(part, ast.expr)
    )


def _line_starts(source: bytes) -> list[int]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else f"{line[:87]}..."


def _substituted(node: Node, old: ast.AST, new: ast.AST) -> Node | ast.AST:
    """A copy of the node in which `new` stands for `old`."""
    if node is old:
        return new
    if isinstance(node, list):
        return [_substituted(item, old, new) for item in node]
    if not isinstance(node, ast.AST):
        return node
    copy = type(node)(**{name: _substituted(v, old, new) for name, v in ast.iter_fields(node)})
    return ast.copy_location(copy, node)


def _walk(node: ast.AST, scope: Scope) -> Iterator[tuple[Scope, Change]]:
    """Each change of the node and of what is below it, but for what cannot change behaviour."""
    scope = _scope_of(node, scope)
    for change in _changes(node):
        yield scope, change
    for field, value in ast.iter_fields(node):
        if field in INERT_FIELDS:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_inert(child):
                yield from _walk(child, scope)


def _scope_of(node: ast.AST, scope: Scope) -> Scope:
    match node:
        case ast.ClassDef():
            lines = range(node.lineno, node.end_lineno + 1)
            return Scope(_join(scope.function, node.name), lines, frozenset({node.name}))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            # The whole function: a default is computed by its module, and used when it is called.
            lines = range(node.lineno, node.end_lineno + 1)
            return Scope(_join(scope.function, node.name), lines, frozenset(), local=True)
        case ast.stmt() | ast.match_case():
            names = frozenset[str]() if scope.local else scope.names | _bound_names(node)
            return replace(scope, span=_header(node), names=names)
        case ast.JoinedStr() if scope.string is None:
            return replace(scope, string=node)
        case _:
            return scope


def _join(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


def _header(node: ast.stmt | ast.match_case) -> range:
    """Lines of a statement without those of its body."""
    start = node.pattern if isinstance(node, ast.match_case) else node
    first = start.lineno
    inner = getattr(node, "body", None) or getattr(node, "cases", None)
    if not inner:
        return range(first, start.end_lineno + 1)
    below = inner[0].pattern if isinstance(inner[0], ast.match_case) else inner[0]
    return range(first, max(first + 1, below.lineno))


def _bound_names(node: ast.AST) -> frozenset[str]:
    match node:
        case ast.Assign():
            targets = node.targets
        case ast.AnnAssign() | ast.AugAssign():
            targets = [node.target]
        case _:
            targets = []
    return frozenset(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))


def _is_inert(node: ast.AST) -> bool:
    """Whether no change below the node could change behaviour, or only a text that people read."""
    match node:
        case ast.Raise() | ast.Assert():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in TYPING_CALLS
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name == "models" or name in LOGGERS
        case ast.keyword(arg="metadata", value=ast.Dict(keys=keys)):
            return all(map(_is_text_key, keys))
        case ast.keyword(arg=name):
            return name in IMPLEMENTATION_KEYWORDS | TEXT_NAMES
        case ast.Subscript(value=ast.Name(id=name)):
            return name in GENERICS or (name[0].isupper() and not name.isupper())
        case ast.BinOp(op=ast.BitOr(), right=ast.Constant(value=None)):
            return True
        case _:
            return False


def _is_text_key(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value in TEXT_NAMES


def _changes(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield Change("and/or", node, ast.BoolOp(other, node.values))
        case ast.BinOp() | ast.AugAssign():
            yield from _arithmetic(node)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield Change("sign or not", node, node.operand)
        case ast.Constant(value=bool()):
            yield Change("truth", node, ast.Constant(not node.value))
        case ast.Constant(value=int() | float() as number):
            yield Change("number", node, ast.Constant(number + 1))
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            yield Change("return", node, ast.Return(ast.Constant(None)))
        case ast.If() | ast.IfExp() | ast.While() | ast.comprehension():
            yield from _conditions(node)
        case ast.Call():
            yield from _keywords(node)
        case ast.Set() | ast.Tuple() | ast.List() | ast.Dict():
            yield from _members(node)


def _comparisons(node: ast.Compare) -> Iterator[Change]:
    for number, operator in enumerate(node.ops):
        for name, others in (("negation", NEGATED), ("boundary", BOUNDARY)):
            if other := others.get(type(operator)):
                ops = [*node.ops[:number], other(), *node.ops[number + 1 :]]
                yield Change(name, node, ast.Compare(node.left, ops, node.comparators))


def _arithmetic(node: ast.BinOp | ast.AugAssign) -> Iterator[Change]:
    """Of numbers and sets: no other operator is there for what is plainly a text or a list."""
    other = ARITHMETIC.get(type(node.op))
    operands = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    if other is None or any(_is_sequence(operand) for operand in operands):
        return
    if isinstance(node, ast.BinOp):
        yield Change("arithmetic", node, ast.BinOp(node.left, other(), node.right))
    else:
        yield Change("arithmetic", node, ast.AugAssign(node.target, other(), node.value))


def _is_sequence(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    return isinstance(node, ast.JoinedStr | ast.Tuple | ast.List | ast.ListComp)


def _conditions(node: ast.If | ast.IfExp | ast.While | ast.comprehension) -> Iterator[Change]:
    tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
    for test in tests:
        if not isinstance(node, ast.While):  # which would not end
            yield Change("condition true", test, ast.Constant(True))
        yield Change("condition false", test, ast.Constant(False))
    if isinstance(node, ast.IfExp):
        yield Change("branches", node, ast.IfExp(node.test, node.orelse, node.body))
    elif isinstance(node, ast.If) and node.orelse:
        yield Change("branches", node.test, ast.UnaryOp(ast.Not(), node.test))


def _keywords(node: ast.Call) -> Iterator[Change]:
    for number, keyword in enumerate(node.keywords):
        if keyword.arg is None or _is_inert(keyword):
            continue
        rest = [*node.keywords[:number], *node.keywords[number + 1 :]]
        before = f"{ast.unparse(node.func)}({ast.unparse(keyword)})"
        after = f"{ast.unparse(node.func)}() without it"
        yield Change("keyword", node, ast.Call(node.func, node.args, rest), before, after)


def _members(node: ast.Set | ast.Tuple | ast.List | ast.Dict) -> Iterator[Change]:
    """Each member of a literal of constants and names, and each entry of a dictionary."""
    if isinstance(node, ast.Dict):
        yield from _entries(node)
        return
    if not _is_table(node):
        return
    for number, member in enumerate(node.elts):
        rest = [*node.elts[:number], *node.elts[number + 1 :]]
        mutant = type(node)(rest) if isinstance(node, ast.Set) else type(node)(rest, ast.Load())
        yield Change("member", node, mutant, ast.unparse(member), "removed")


def _is_table(node: ast.Set | ast.Tuple | ast.List) -> bool:
    if len(node.elts) < 2 or isinstance(getattr(node, "ctx", None), ast.Store):
        return False
    return all(isinstance(member, ast.Constant | ast.Attribute) for member in node.elts)


def _entries(node: ast.Dict) -> Iterator[Change]:
    for number, key in enumerate(node.keys):
        if not isinstance(key, ast.Constant | ast.Attribute) or _is_text_key(key):
            continue
        keys = [*node.keys[:number], *node.keys[number + 1 :]]
        values = [*node.values[:number], *node.values[number + 1 :]]
        before = f"{ast.unparse(key)}: {ast.unparse(node.values[number])}"
        yield Change("entry", node, ast.Dict(keys, values), before, "removed")
