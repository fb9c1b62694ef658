"""Hash what a source file computes: its syntax tree without the parts that change no result.

    digest("def f(x):\n    y = x + 1  # one more\n    return y\n") == digest("def f(x):\n    z = x + 1\n    return z\n")

Comments, formatting and docstrings are left out; the names of a function's local variables become numbers. Parameters
keep their names, since callers may use them, and so do module-level and class-level names. The same text has the same
hash under every Python version that can run it.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.util import decode_source
from pathlib import Path
from typing import Any

from tapeline.runtime import user_cache
from tapeline.runtime.errors import InputError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn an error of Python's parser in a module into an `InputError` with the file and the line."""
    try:
        yield
    except SyntaxError as error:
        raise InputError(f"{path}, line {error.lineno or 1}: {error.msg}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: {error}: save it as UTF-8, or declare its encoding") from None
    except (ValueError, RecursionError, MemoryError) as error:  # a null byte; nesting too deep for Python's parser
        raise InputError(f"{path} is not Python: {error}") from None


@cache
def digest(source: str) -> str:
    """Return 64 hexadecimal digits for a module's source. Raises `SyntaxError` if it is not Python."""
    return sha256(" ".join(_told(ast.parse(source), _Scope())).encode()).hexdigest()


def digest_of_file(path: Path) -> str:
    """Return `digest` of a file's content, computed once for each content: a recipe's modules take 0.1 s.

    Raises `SyntaxError` or `UnicodeDecodeError` if it is not Python.
    """
    source = decode_source(path.read_bytes())
    python = ".".join(map(str, sys.version_info[:2]))
    content = sha256(f"{Path(__file__).read_text(encoding='utf-8')}\n{source}".encode()).hexdigest()
    return user_cache.remembered("modules", f"{python}-{content}", lambda: digest(source))


def digest_of_modules(modules: Mapping[Path, str], root: Path) -> str:
    """Return one hash for modules' sources and paths relative to `root`, independent of their order."""
    lines = sorted(f"{path.relative_to(root).as_posix()} {digest(source)}" for path, source in modules.items())
    return sha256("\n".join(lines).encode()).hexdigest()


@dataclass
class _Scope:
    """The names that one function, class or comprehension binds, with a number for each that may be renamed."""

    outer: "_Scope | None" = None
    numbers: dict[str, str] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    is_class: bool = False

    def name(self, name: str) -> str:
        """Return what the hash uses for a name that is read or written in this scope."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.numbers:
                return scope.numbers[name]
            if name in scope.fixed:
                return name
            scope = scope.outer
            while scope is not None and scope.is_class:
                scope = scope.outer  # a method does not see its class's names
        return name

    def inner(self, bound: Iterable[str], fixed: Iterable[str], *, is_class: bool = False) -> "_Scope":
        kept = frozenset(fixed)
        depth = 0
        scope: _Scope | None = self
        while scope is not None:
            depth, scope = depth + 1, scope.outer
        free = [name for name in dict.fromkeys(bound) if name not in kept]
        numbers = {} if is_class else {name: f"{depth}.{number}" for number, name in enumerate(free)}
        return _Scope(self, numbers, kept | (frozenset(free) if is_class else frozenset()), is_class)


_UNTOLD = ("ctx", "type_comment", "kind", "type_ignores", "type_params")
"""Fields that change no result, or that not every Python version has."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BY_NAME = {"locals", "vars", "eval", "exec", "dir"}
"""Functions that see the names of local variables."""


def _told(value: Any, scope: _Scope) -> Iterator[str]:
    """Yield the parts of a tree, each named in its own scope."""
    if isinstance(value, list):
        yield "["
        for item in value:
            if not _is_docstring(item):
                yield from _told(item, scope)
        yield "]"
    elif not isinstance(value, ast.AST):
        yield repr(value)
    elif isinstance(value, _FUNCTIONS):
        yield from _function(value, scope)
    elif isinstance(value, ast.ClassDef):
        yield from _fields(value, scope, {"body": scope.inner(*_bound(value.body), is_class=True)})
    elif isinstance(value, _COMPREHENSIONS):
        yield from _comprehension(value, scope)
    elif isinstance(value, ast.Name):
        yield scope.name(value.id)
    elif isinstance(value, ast.Nonlocal):
        yield from ("Nonlocal", *map(scope.name, value.names))
    else:
        named = {"name"} if isinstance(value, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) else {"rest"}
        yield from _fields(value, scope, {}, named)


def _fields(node: ast.AST, scope: _Scope, scopes: dict[str, _Scope], named: Iterable[str] = ()) -> Iterator[str]:
    """Yield a node's fields. scopes: of fields that are not in `scope`. named: fields that hold variable names."""
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        if name not in _UNTOLD and value is not None and value != []:
            yield name
            if name in named and isinstance(value, str):
                yield scope.name(value)
            else:
                yield from _told(value, scopes.get(name, scope))


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: _Scope) -> Iterator[str]:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    parameters = {argument.arg for argument in given if argument is not None}
    body = node.body if isinstance(node.body, list) else [node.body]
    bound, fixed = _bound(body)
    used = {inner.id for part in body for inner in ast.walk(part) if isinstance(inner, ast.Name)}
    inner = scope.inner(bound, {*fixed, *parameters, *(bound if used & _BY_NAME else ())})
    yield from _fields(node, scope, {"body": inner})


def _comprehension(node: Any, scope: _Scope) -> Iterator[str]:
    """Yield a comprehension: its first iterable is in the enclosing scope, the rest in its own."""
    targets = [part for generator in node.generators for part in ast.walk(generator.target)]
    inner = scope.inner((part.id for part in targets if isinstance(part, ast.Name)), ())
    yield type(node).__name__
    for number, generator in enumerate(node.generators):
        yield from _fields(generator, inner, {} if number else {"iter": scope})
    for name in ("key", "value", "elt"):
        if hasattr(node, name):
            yield from _told(getattr(node, name), inner)


def _bound(body: Iterable[ast.AST]) -> tuple[list[str], set[str]]:
    """Return the names that statements bind in their own scope, and the names that must stay as they are.

    Functions, classes and imports keep their names: results may contain them.
    """
    bound: list[str] = []
    fixed: set[str] = set()
    elsewhere: set[str] = set()
    waiting = list(reversed(list(body)))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            fixed.add(node.name)
            waiting += node.decorator_list
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, _COMPREHENSIONS):
            inside = [part for part in ast.walk(node) if isinstance(part, ast.NamedExpr)]
            bound += [part.target.id for part in inside]  # `:=` binds in the scope around a comprehension
            continue
        if isinstance(node, ast.Global):
            fixed |= set(node.names)
        elif isinstance(node, ast.Nonlocal):
            elsewhere |= set(node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            fixed |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            bound.append(node.id)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            bound.append(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.append(node.rest)
        waiting += reversed(list(ast.iter_child_nodes(node)))
    return [name for name in bound if name not in elsewhere], fixed


def _is_docstring(node: Any) -> bool:
    """Return whether a statement is a bare string, anywhere: it has no effect."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
