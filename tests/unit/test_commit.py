"""What a commit runs of the tests that take turns."""

import pathlib

from hypothesis import given
from hypothesis import strategies as st

from tests.support import commit, real_services
from tests.support.commit import ROTATION, Commit, choose

FILES = [f"tests/cloud/test_{name}.py" for name in "abcdefghijklmnop"]
ALWAYS = FILES[:3]
HASH = "0" * 40


def at(number, *changed):
    return Commit(HASH, number, frozenset(changed))


@given(st.integers(0, 10**6))
def test_any_six_commits_in_a_row_run_every_file(first):
    ran = [choose(at(first + n), FILES, ALWAYS, {}) for n in range(ROTATION)]
    assert set().union(*ran) == set(FILES)
    assert all(set(ALWAYS) <= set(each) for each in ran)
    assert max(map(len, ran)) < len(FILES) / 2


def test_a_changed_source_brings_its_file_whatever_the_turn():
    sources = {FILES[9]: ("cleanup_orchestrator/plugins/dns.py", "cleanup_orchestrator/plugins/dns/")}
    for path in ("cleanup_orchestrator/plugins/dns.py", "cleanup_orchestrator/plugins/dns/zone.py", FILES[9]):
        for number in range(ROTATION):
            assert FILES[9] in choose(at(number, path), FILES, ALWAYS, sources)
    assert sum(FILES[9] in choose(at(number, "README.rst"), FILES, ALWAYS, sources) for number in range(ROTATION)) == 1


def test_every_file_that_is_named_is_there():
    named = {*real_services.ALWAYS, *real_services.SOURCES, *real_services.BOTH_DATABASES}
    assert [file for file in named if not (commit.ROOT / file).exists()] == []


def test_every_source_that_is_named_is_there():
    paths = {path for sources in real_services.SOURCES.values() for path in sources if not path.endswith("/")}
    assert [path for path in paths if not (commit.ROOT / path).exists()] == []


def test_every_plugin_and_every_launched_service_belongs_to_a_file():
    known = {path for sources in real_services.SOURCES.values() for path in sources}
    services = {f"tests/cloud/services/{path.name}" for path in pathlib.Path("tests/cloud/services").glob("[a-z]*.py")}
    assert services - known == {"tests/cloud/services/base.py", "tests/cloud/services/placement.py"}
