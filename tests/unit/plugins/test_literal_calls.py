"""The calls of every type of resource, against texts that were written from the services' API references."""

import difflib

import pytest

from cleanup_orchestrator.plugins import registry
from tests.unit.plugins import wire

SERVICES = registry.load().services
TEXTS = {path.stem: path.read_text() for path in sorted(wire.CALLS.iterdir())}


@pytest.mark.parametrize("service", SERVICES)
def test_each_type_is_listed_proven_and_deleted_by_the_calls_of_its_text(service):
    drive = wire.Drive(SERVICES[service], TEXTS[service])
    different = [
        line
        for title in drive.titles
        for phase, expected, recorded in drive.run(title)
        if expected != recorded
        for line in (f"{title}: {phase}", *difflib.ndiff(expected, recorded))
    ]
    assert not different, "\n".join(["- is in the text, and + is what the plugin does:", *different])


def test_each_type_of_each_service_has_a_text():
    declared = {f"{name}.{type_.name}" for name, service in SERVICES.items() for type_ in service.types}
    texts = {f"{name}.{title.partition(' / ')[0]}" for name, text in TEXTS.items() for title in wire.read(text)}
    assert texts - {f"{name}.{wire.EVERY}" for name in TEXTS} == declared


def test_each_text_has_a_list_that_finds_something_and_a_delete():
    """A text without a resource, or without the call that deletes it, would show nothing about this type."""
    empty = []
    for name, text in TEXTS.items():
        drive = wire.Drive(SERVICES[name], text)
        for title in drive.titles:
            own = drive.texts[title]
            if not any(line.startswith("-> ") for line in own["list"].lines):
                empty.append(f"{name}.{title}: list")
            if drive.type_of(title).delete is not None and "delete" not in own:
                empty.append(f"{name}.{title}: delete")
    assert not empty


def test_no_line_of_a_text_is_unused():
    """The lines of a phase that a type does not have would never be compared."""
    unused = []
    for name, text in TEXTS.items():
        drive = wire.Drive(SERVICES[name], text)
        every = set(drive.texts.get(wire.EVERY, ()))
        for title in drive.titles:
            own, phases = drive.texts[title].keys(), set(wire.phases_of(drive.type_of(title)))
            unused += [f"{name}.{title}: {phase}" for phase in own - phases]
            every -= phases - own
        unused += [f"{name}.{wire.EVERY}: {phase}" for phase in every]
    assert not unused


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("thing\n  list GET /x\nthing\n", "line 3: thing is there twice"),
        ("thing\n  look GET /x\n", "line 2: 'look GET /x' is no phase of a type, and no answer"),
        ("thing\n  = {}\n", "line 2: '= {}' is no phase of a type, and no answer"),
        ("  list GET /x\n", "line 1: 'list GET /x' is no phase of a type, and no answer"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused(text, problem):
    with pytest.raises(ValueError, match=problem):
        wire.read(text)
