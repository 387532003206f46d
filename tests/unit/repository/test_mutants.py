"""The list of mutations fits today's source; the runner tells a test that notices a defect from one that does not."""

import ast
import collections
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import mutants
from tests.mutants import MUTATIONS
from tests.mutants.mutation import DoesNotApply, Mutation
from tests.support.cases import each_case

ROOT = Path(__file__).resolve().parents[3]
BY_FILE = collections.defaultdict(list)
for _mutation in MUTATIONS:
    BY_FILE[_mutation.file].append(_mutation)


#: Lines of logic from which a module needs a mutation, and for how many lines it needs one.
SMALL, LINES = 20, 100


def test_each_module_of_the_folder_gives_its_mutations():
    folder = Path(mutants.__file__).parent
    written = {path.stem for path in folder.glob("*.py") if "    Mutation(\n" in path.read_text()}
    assert len(written) > 5
    assert {name for name in written if not getattr(mutants, name).MUTATIONS} == set()
    assert len(MUTATIONS) == sum(len(getattr(mutants, name).MUTATIONS) for name in written)


def _lines_of_logic(source):
    """Count the lines of the statements in functions, without docstrings and the signatures of functions."""
    lines = set()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in (node for top in function.body for node in ast.walk(top) if isinstance(node, ast.stmt)):
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    continue
                if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    continue
                body = getattr(statement, "body", None)
                end = body[0].lineno if body else statement.end_lineno + 1
                lines.update(range(statement.lineno, max(end, statement.lineno + 1)))
    return len(lines)


def test_lines_of_logic_are_those_of_statements_in_functions():
    source = """
LIMIT = 3

class Thing:
    '''A docstring.'''

    kept: int = 3

    def twice(
        self,
    ):
        '''Another docstring.'''
        # a comment
        if (
            self.kept
        ):
            return [
                1,
            ]
        def inner(): pass
        return 0
"""
    assert _lines_of_logic(source) == 8


def test_every_module_with_logic_has_mutations():
    """Without one, nothing shows that any test would notice a defect of the module."""
    missing = {}
    for path in sorted((ROOT / "cleanup_orchestrator").rglob("*.py")):
        file = str(path.relative_to(ROOT))
        lines = _lines_of_logic(path.read_text())
        needed = -(-lines // LINES) if lines >= SMALL else 0
        if (count := len(BY_FILE.get(file, ()))) < needed:
            missing[file] = f"{count} of {needed} for {lines} lines of logic"
    assert missing == {}, "\n".join(f"{file}: {why}" for file, why in missing.items())


def test_the_names_of_mutations_are_unique():
    names = collections.Counter(mutation.name for mutation in MUTATIONS)
    assert [name for name, count in names.items() if count > 1] == []
    changes = collections.Counter((m.file, m.old, m.new) for m in MUTATIONS)
    assert [change for change, count in changes.items() if count > 1] == []


@each_case("file", sorted(BY_FILE))
def test_each_still_applies_and_leaves_python(file):
    source = (ROOT / file).read_text()
    for mutation in BY_FILE[file]:
        assert mutation.old.strip() != mutation.new.strip(), mutation.name
        mutation.apply(source)
    # As many as apply beside each other at once: parsing takes longer than all the rest.
    rest = BY_FILE[file]
    while rest:
        text, together, later = source, [], []
        for mutation in rest:
            try:
                text = mutation.apply(text)
                together.append(mutation)
            except DoesNotApply:
                later.append(mutation)
        try:
            ast.parse(text, file)
        except SyntaxError:  # together they may leave an empty block
            for mutation in together:
                ast.parse(mutation.apply(source), mutation.name)
        rest = later


def test_each_names_tests_that_are_there():
    named = {path for mutation in MUTATIONS for path in mutation.tests}
    assert sorted(path for path in named if not (ROOT / path).is_file()) == []
    assert [mutation.name for mutation in MUTATIONS if not mutation.tests] == []


@pytest.mark.parametrize("old", ["x = 3", "x = "])
def test_a_mutation_whose_text_is_not_there_as_often_as_it_says_does_not_apply(old):
    with pytest.raises(DoesNotApply, match="times"):
        Mutation("n", "f", old, "y", ()).apply("x = 1\nx = 2\n")


# --------------------------------------------------------------------------------------------------------- the runner
THING = """
def twice(number):
    return 2 * number
"""
CHECKS = """
import time

from thing import twice


def test_twice():
    assert twice(0) == 0
    assert twice(3) < 100
    while twice(1) == 4:
        time.sleep(1)
"""
RUN = """
import sys
from pathlib import Path
from tests.mutants.mutation import Mutation
from tests.mutants.runner import check

new, old, seconds = sys.argv[2:5]
mutation = Mutation("mutation", "thing.py", old, new, ("checks/test_thing.py",))
results, plain = check(Path(sys.argv[1]), [mutation], jobs=1, seconds=float(seconds), preloaded='')
print(*(result.verdict for result in (*plain, *results)), sep=", ")
"""


@pytest.mark.parametrize(
    ("new", "old", "seconds", "verdict"),
    [
        ("2 * number + 1", "2 * number", 300, "killed"),
        ("number", "2 * number", 300, "survived"),
        ("4 * number", "2 * number", 2, "timed out"),
        ("x", "three", 300, "does not apply"),
        ("nonsense from", "2 * number", 300, "error"),
    ],
)
def test_what_a_test_notices_is_killed_and_nothing_else(tmp_path, new, old, seconds, verdict):
    (tmp_path / "checks").mkdir()
    (tmp_path / "thing.py").write_text(THING)
    (tmp_path / "checks" / "test_thing.py").write_text(CHECKS)
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["real: x", "long: x"]\n')
    command = [sys.executable, "-c", RUN, str(tmp_path), new, old, str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout.strip()) == (0, f"survived, {verdict}"), done.stderr
    assert (tmp_path / "thing.py").read_text() == THING, "the tree itself stays as it is"


def test_the_list_and_the_help_are_shown_without_running_anything():
    for arguments, said in ((["--list", "--only", "owner"], "owner"), (["--help"], "example:")):
        done = subprocess.run(
            [sys.executable, "-m", "tests.mutants", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, said in done.stdout) == (0, True)
