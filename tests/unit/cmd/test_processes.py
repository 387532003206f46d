"""Which parts each process starts, and how they reach each other."""

import pytest

from cleanup_orchestrator import service
from cleanup_orchestrator.cmd import processes, schema

PARTS = ("api", "engine", "worker")


@pytest.fixture
def started(monkeypatch):
    """Return a function that runs a command and returns what it starts."""

    def main(prog, _description, *parts, check, in_process=False):
        assert check is schema.require, "no process starts with a database of another release"
        return prog, set(parts), in_process

    monkeypatch.setattr(service, "main", main)
    return lambda name: getattr(processes, name)()


@pytest.mark.parametrize("name", PARTS)
def test_a_process_starts_the_part_of_its_name_and_reaches_the_others_over_the_broker(started, name):
    assert started(name) == (f"cleanup-orchestrator-{name}", {name}, False)


def test_a_single_process_starts_all_parts_and_needs_no_broker(started):
    assert started("all_in_one") == ("cleanup-orchestrator-all-in-one", {*PARTS}, True)
