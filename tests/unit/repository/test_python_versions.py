"""What is installed beside the software of others runs on Python 3.9; the server on 3.11.

The checks need no Python 3.9: they read the source. vermin knows the syntax, the names and the parameters of each
version of Python. What no source says, such as a new method of an object, only the tests on Python 3.9 find
(tests/functional/test_installs.py).
"""

import ast
import builtins
import fnmatch
import importlib
import inspect
import re
import subprocess
import sys
import tomllib

import pytest

from tests.unit.dashboard import stand_in
from tests.unit.repository.test_house import PACKAGE, ROOT, SERVICE_SIDE, SOURCES, imports, inside, reach, tree_of

OLDEST = "3.9"


def client_side():
    """Return the modules that run in Keystone, in Horizon, in a service that speaks the protocol, and with the clients.

    The wheel has the commands of the server there, too: they say which Python they need.
    """
    rooms = [*inside("dashboard", "keystone", "osc", "sdk"), *SERVICE_SIDE, f"{PACKAGE}.cmd"]
    return sorted({*rooms, *(name for module in rooms for name in reach(module) if name in SOURCES)})


def vermin(*paths):
    """Return what vermin says of files that need a newer Python; empty: none does."""
    options = (f"--target={OLDEST}-", "--violations", "--no-tips")
    command = [sys.executable, "-c", "from vermin import main; main()", *options]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True)
    assert done.returncode in (0, 1) and done.stderr == "", done.stderr
    return done.stdout if done.returncode else ""


def test_the_client_side_runs_on_python_3_9():
    assert vermin(*(SOURCES[module] for module in client_side())) == ""


@pytest.mark.parametrize(
    "line",
    [
        "from enum import StrEnum",
        "import datetime; datetime.UTC",
        "import dataclasses; dataclasses.dataclass(slots=True)",
        "match 1:\n    case 1: pass",
        "zip([], [], strict=True)",
    ],
)
def test_a_newer_python_is_seen(tmp_path, line):
    (tmp_path / "newer.py").write_text(line + "\n")
    assert "requires !2, 3.1" in vermin(tmp_path / "newer.py")


def unions(tree):
    """Return the unions of types that are evaluated. Annotations are not, with ``from __future__``."""
    skipped = {
        inner
        for node in ast.walk(tree)
        for note in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if note is not None
        for inner in ast.walk(note)
    }
    types = {"None", *(name for name, each in vars(builtins).items() if isinstance(each, type))}
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)]
    return [
        ast.unparse(node)
        for node in joined
        if node not in skipped and {ast.unparse(node.left).partition("[")[0], ast.unparse(node.right)} & types
    ]


def test_no_union_of_types_is_evaluated_on_the_client_side():
    """vermin does not see them."""
    assert unions(ast.parse("A = int | str\nB = dict[str, int] | X\ndef f(a: int | str) -> int | None: a | 1")) == [
        "int | str",
        "dict[str, int] | X",
    ]
    assert [union for module in client_side() for union in unions(tree_of(module))] == []


def newer_patterns(module):
    """Return the regular expressions of a module that Python 3.10 cannot compile: with ``*+`` or ``(?>``."""
    from re import _parser

    source = inspect.getsource(module)
    found = [each for each in vars(module).values() if isinstance(each, re.Pattern)]
    assert len(found) >= len(re.findall(r"^\w+ = re\.compile\(", source, re.M))
    parsed = {each.pattern: repr(_parser.parse(each.pattern, each.flags)) for each in found}
    return [pattern for pattern, parts in parsed.items() if "POSSESSIVE" in parts or "ATOMIC" in parts]


def test_no_regular_expression_of_the_client_side_is_too_new():
    """vermin does not read regular expressions. ``core.redact`` has such ones, and is the server's."""
    assert newer_patterns(importlib.import_module("cleanup_orchestrator.core.redact"))
    with stand_in.horizon():
        modules = [importlib.import_module(name) for name in client_side() if "re" in imports(name)]
    assert len(modules) > 5
    assert [pattern for module in modules for pattern in newer_patterns(module)] == []


def test_ruff_knows_what_runs_on_python_3_9():
    """Without the entry, ``ruff --fix`` would write names that Python 3.9 does not have."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["per-file-target-version"]
    globs = [each for pattern in table for each in braces(pattern)]
    paths = [str(SOURCES[name].relative_to(ROOT)) for name in client_side() if SOURCES[name].stat().st_size]
    assert [path for path in paths if not any(fnmatch.fnmatch(path, glob) for glob in globs)] == []
    assert set(table.values()) == {"py" + OLDEST.replace(".", "")}


def braces(pattern):
    """Return the patterns that a pattern with ``{a,b}`` stands for."""
    head, brace, rest = pattern.partition("{")
    if not brace:
        return [pattern]
    names, _, tail = rest.partition("}")
    return [head + name + end for name in names.split(",") for end in braces(tail)]


def test_a_command_of_the_server_names_the_python_that_it_needs():
    program = "import sys; sys.version_info = (3, 9, 18, 'final', 0); import cleanup_orchestrator.cmd"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 255
    assert done.stderr == "cleanup-orchestrator: the server needs Python 3.11 or later; this is Python 3.9\n"
