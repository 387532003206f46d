"""Every leftover and every blocker has a remedy: a thing that can be done, with nothing left to fill in."""

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core.reasons import (
    BEHIND,
    UNKNOWN_TO_SERVICE,
    UNNAMED,
    WAITS,
    Reason,
    Subject,
    commands,
    remedy,
)
from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource
from tests.unit.plugins.test_endings import is_whole

#: What a leftover or an unknown result of a sweep may have.
OF_SWEEPS = [
    reason
    for reason in Reason
    if not reason.startswith("project_") or reason is Reason.PROJECT_GONE
    if reason not in (Reason.DRAIN_HELD, Reason.INHERITED_GRANTS)
]
#: "Nothing" may be said of what ends by itself, and of what is as it should be.
BY_ITSELF = {
    *(Reason.QUEUED, Reason.DELETING, Reason.ON_HOLD, Reason.RATE_LIMITED, Reason.STOPPED, Reason.NOT_SELECTED),
    *(Reason.KEPT, Reason.WAIVED, Reason.INFORMATIONAL, Reason.DRAIN_HELD),
    *(Reason.PROJECT_KNOWN, Reason.PROJECT_PROTECTED, Reason.PROJECT_IS_DOMAIN),
}
PROJECT = ProjectDefinition("p1", "P", "default", "R1")
TYPES = [(service.service_type, type_) for service in registry.load().services.values() for type_ in service.types]


class AnyRow(dict):
    """A row that has every attribute, so that a template is filled whatever it names."""

    def __missing__(self, key):
        return f"the-{key}"


def names_a_call(text):
    """Whether a text names a command, an option, a request, or a person who does something to a thing."""
    return bool(
        re.search(r"'openstack |openstack \w|\[\w+\]|GET |POST |PUT |PATCH |DELETE |-manage |operator|admin", text)
    )


def test_every_reason_of_every_type_has_a_remedy():
    wrong = {}
    for service, type_ in TYPES:
        subject = Subject("d1", "p1", service, type_.name, "r1")
        for reason in OF_SWEEPS:
            known = type_.remedy_for(reason, PROJECT, Resource("r1", "R", "p1", AnyRow()))
            if bool(known) is not (reason in type_.remedies):
                wrong[f"{service}.{type_.name}: {reason}"] = "the template cannot be filled"
                continue
            text = remedy(reason, subject, known)
            nothing = text.startswith("nothing") and reason not in BY_ITSELF
            if not is_whole(text) or nothing or not (text.startswith("nothing") or names_a_call(text)):
                wrong[f"{service}.{type_.name}: {reason}"] = text
    assert wrong == {}


@pytest.mark.parametrize("text", [UNNAMED, UNKNOWN_TO_SERVICE, WAITS, BEHIND])
def test_a_remedy_of_a_special_case_is_whole(text):
    assert is_whole(Subject("d1", "p1", "network", "port", "r1").fill(text, behind="compute.server"))


def test_a_remedy_has_the_ids_where_they_are_known():
    texts = {reason: remedy(reason, Subject("d1", "p1", "network", "port", "r1")) for reason in Reason}
    assert {reason: text for reason, text in texts.items() if not is_whole(text)} == {}
    assert {reason: text for reason, text in texts.items() if re.search(r"\b(DELETION|TYPE|ID)\b", text)} == {}
    ours = {reason: text for reason, text in texts.items() if "openstack project deletion" in text}
    named = re.compile("d1|deletion (waiver|force)")
    assert {reason: text for reason, text in ours.items() if not named.search(text)} == {}


def test_what_a_service_wrote_stays_as_it_is():
    assert remedy(Reason.ERROR, Subject("d1"), 'send {"a": {b}} for {deletion}') == 'send {"a": {b}} for d1'


def test_force_is_requested_for_the_project():
    """The command takes a project, and not a deletion."""
    texts = [remedy(reason, Subject("d1", "p1", "network", "port", "r1")) for reason in Reason]
    commands = [each for text in texts for each in re.findall(r"'(openstack project deletion force[^']*)'", text)]
    assert commands and [command for command in commands if not command.endswith("p1")] == []


# -------------------------------------------------------------------------------------------------- commands to copy
KEEP = "its owner makes it private: 'openstack image set --private {id}'; then go on"


@pytest.mark.parametrize(
    ("reason", "known", "expected"),
    [
        ("protected", KEEP, ["openstack image set --private r1"]),
        ("protected", "", ["openstack project deletion retry d"]),
        ("in_use", "", ["openstack project deletion leftovers --long --type network.port d"]),
        (
            "no_project_token",
            "",
            ["openstack role add --user USER --domain DOMAIN --inherited admin", "openstack project deletion retry d"],
        ),
        ("present", "", []),  # the cascade deletes everything
        ("stuck", "", []),  # force gives up what is left
        ("no_plugin", "", []),  # a waiver leaves what the service holds
        ("in_use", "a member ends it: 'openstack server delete {id}'; or an operator: 'rm -rf {id}'", []),
        ("foreign", "'openstack router set --no-route {id}' and that is another project's router", []),
        ("of a later release", "", []),
    ],
)
def test_the_commands_of_a_remedy_can_be_copied_if_they_delete_nothing(reason, known, expected):
    subject = Subject("d", "p", "network", "port", "r1")
    found = list(commands(reason, subject, known))
    assert found == expected


@pytest.mark.parametrize("reason", [None, *Reason])
def test_a_copied_command_renames_nothing_to_a_placeholder(reason):
    """A command with USER fails until the reader fills it in. One that sets the name NAME succeeds as it is."""
    known = "an admin renames it ('openstack project set --name NAME {project}')" if reason is None else ""
    assert [each for each in commands(reason or "protected", Subject("d", "p"), known) if "NAME" in each] == []


HOSTILE = [
    "x; reboot",
    "$(reboot)",
    "`reboot`",
    "x\nreboot",
    "--all",
    "-r",
    "a b",
    "'openstack project set --disable admin'",
    "x', then 'openstack project set --disable admin'",
    "x' 'openstack role add --user eve --project p admin",
    "\u202e1r",
    "x|sh",
    "*",
    "~root",
    "x\\",
    "",
]


@pytest.mark.parametrize("id_", HOSTILE)
@pytest.mark.parametrize("template", [KEEP, "changes {type} {id} as the message asks; " + KEEP])
def test_what_a_user_named_is_in_no_command(id_, template):
    """Users choose names of containers, queues and others: a copied command must be that of the remedy."""
    by_worker = template.replace("{id}", shlex.quote(id_)) if not id_.startswith("-") else ""
    for known in (template, by_worker):
        found = commands("protected", Subject("d", "p", "object-store", "container", id_), known)
        assert not set(found) - {"openstack image set --private ID", "openstack project deletion retry d"}


@given(id_=st.text(max_size=40))
def test_a_command_has_only_plain_words(id_):
    for known in (KEEP, KEEP.replace("{id}", shlex.quote(id_)) if not id_.startswith("-") else KEEP):
        for each in commands("protected", Subject("d", "p", "image", "image", id_), known):
            assert shlex.split(each) == each.split() == ["openstack", "image", "set", "--private", id_ or "ID"]


def test_a_command_that_takes_a_role_away_is_not_copied():
    assert "openstack role remove" not in commands(Reason.INHERITED_GRANTS)
    assert commands(Reason.PROTECTED, known="'openstack server remove port s p' ends it") == ()
