"""What an ID of Keystone looks like: the same in each room, so that none refuses what another one accepts."""

import re

import jsonschema
import pytest

from cleanup_orchestrator.core import ids
from cleanup_orchestrator.keystone import protocol as keystone
from cleanup_orchestrator.protocol import checks
from cleanup_orchestrator.sdk import text as sdk
from cleanup_orchestrator.shapes import forms

#: By room: whether a text is an ID there.
ROOMS = {
    "core": ids.is_id,
    "keystone": lambda text: re.fullmatch(keystone.ID_PATTERN, text) is not None,
    "protocol": checks.is_project_id,
    "sdk": lambda text: sdk.KEYSTONE_ID.fullmatch(text) is not None,
    "shapes": jsonschema.Draft202012Validator(forms.ID).is_valid,
}


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("0123456789abcdef0123456789abcdef", True),
        ("0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11", True),
        ("made_by_another_tool", True),  # Keystone takes the row of its database as it is
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ("a/b", False),
        ("..", False),
        ("a b", False),
        ("a%2Fb", False),
        ("ä", False),
        ("a\n", False),
    ],
)
def test_an_id_is_one_in_each_room(room, text, valid):
    assert ROOMS[room](text) is valid


@pytest.mark.parametrize(("text", "valid"), [("0" * 32, False), ("0-0", False), ("0a", True), ("a/b", False)])
def test_zeros_are_no_project(text, valid):
    assert ids.is_project_id(text) is valid
