"""How a record becomes JSON."""

from __future__ import annotations

import datetime
import enum
import types

import pytest

from cleanup_orchestrator import shapes
from cleanup_orchestrator.shapes.base import Shape, field, time
from cleanup_orchestrator.shapes.render import render, render_listed

AT = datetime.datetime(2026, 11, 21, 10, 0, 0, 999)


class Kind(enum.StrEnum):
    A = "a"


class Part(Shape):
    name: str = field("A name.")


class Whole(Shape):
    id: str = field("An ID.")
    at: str | None = time("A time.")
    owner: str | None = field("An owner.")
    parts: list[Part] = field("Parts.")
    only: Part | None = field("A part.")
    note: str = field("A note.", optional=True)
    more: int = field("A detail.", detail=True)


def record(**values):
    known = {"id": Kind.A, "at": AT, "owner": "", "parts": (), "only": None, "more": 7}
    return types.SimpleNamespace(**known | values)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("id", Kind.A, "a"),
        ("id", "x", "x"),
        ("id", "", ""),  # it cannot be null
        ("at", AT, "2026-11-21T10:00:00Z"),
        ("at", None, None),
        ("owner", "", None),
        ("owner", "p1", "p1"),
        ("parts", [types.SimpleNamespace(name="a"), {"name": "b"}], [{"name": "a"}, {"name": "b"}]),
        ("only", types.SimpleNamespace(name="a"), {"name": "a"}),
        ("more", 0, 0),
    ],
)  # fmt: skip
def test_a_value_is_the_attribute_as_json_has_it(name, value, shown):
    assert render(Whole, record(**{name: value}))[name] == shown
    assert render(Whole, record(), **{name: value})[name] == shown, "a computed value is converted as well"


def test_a_computed_value_comes_before_the_attribute():
    assert render(Whole, record(id="x"), id="y")["id"] == "y"


def test_the_fields_stand_in_the_order_of_the_shape():
    assert list(render(Whole, record(note="n"))) == list(Whole.fields)


def test_an_optional_field_without_a_value_is_absent():
    assert "note" not in render(Whole, record())


def test_a_list_leaves_details_out():
    assert "more" not in render_listed(Whole, record())


@pytest.mark.parametrize("name", ["id", "at", "parts"])
def test_a_missing_attribute_is_a_defect(name):
    values = record()
    delattr(values, name)
    with pytest.raises(AttributeError):
        render(Whole, values)


@pytest.mark.parametrize("render_it", [render, render_listed])
def test_a_computed_value_of_no_field_is_a_defect(render_it):
    """Else a slip of the name would show the attribute that the value ought to replace."""
    with pytest.raises(TypeError, match="Whole has no field nmae"):
        render_it(Whole, record(), nmae="x")


def test_only_open_fields_name_no_person():
    """Callers who may not read liens and waivers see these of them."""
    assert set(shapes.Lien.open) == {"id", "project_id", "origin", "expires_at"}
    assert set(shapes.Waiver.open) == {"id", "project_id", "service_type", "region", "expires_at", "user_name"}
