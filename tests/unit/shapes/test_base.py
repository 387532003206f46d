"""What a shape reads from its class."""

from __future__ import annotations

import pytest

from cleanup_orchestrator.shapes import base, deletions
from cleanup_orchestrator.shapes.base import Shape, field, time


class Inner(Shape):
    count: int = field("A number.", label="Total")


class First(Shape, many="things", columns="id inner.count"):
    id: str = field("An ID.")


class Second(Shape):
    at: str | None = time("A time.", detail=True)


class Both(First, Second):
    inner: Inner | None = field()
    names: list[str] = field("Names.", maxItems=3, optional=True)
    parts: list[Inner] = field("Parts.", quiet=True)


def test_the_fields_stand_in_the_order_of_the_bases_and_the_own_ones_last():
    assert list(Both.fields) == ["id", "at", "inner", "names", "parts"]


def test_a_subclass_has_the_parameters_of_its_bases():
    assert (Both.many, Both.one, Both.columns) == ("things", "", ("id", "inner.count"))


@pytest.mark.parametrize(
    ("name", "kind", "null", "nested"),
    [
        ("id", str, False, None),
        ("at", str, True, None),
        ("inner", Inner, True, Inner),
        ("names", list[str], False, None),
        ("parts", list[Inner], False, Inner),
    ],
)
def test_the_type_is_the_annotation(name, kind, null, nested):
    each = Both.fields[name]
    assert (each.kind, each.null, each.nested) == (kind, null, nested)


def test_a_detail_can_be_absent_and_says_so():
    assert Both.fields["at"].field.optional
    assert Both.fields["at"].about == "A time. Absent in lists."
    assert Both.fields["names"].about == "Names."


def test_what_is_no_attribute_of_a_field_is_a_rule_of_the_schema():
    assert Both.fields["names"].field.rules == {"maxItems": 3}
    assert Both.fields["at"].field.rules == {"format": "date-time"}
    assert Both.fields["parts"].field.quiet


@pytest.mark.parametrize(
    ("path", "label"), [("id", "ID"), ("inner.count", "Total"), ("names", "Names"), ("parts.count", "Total")]
)
def test_a_column_has_the_label_of_its_field(path, label):
    assert base.field_at(Both, path).label == label


@pytest.mark.parametrize(("name", "label"), [("project_id", "Project ID"), ("created_at", "Created At")])
def test_without_a_label_the_name_says_it(name, label):
    assert base.label(name) == label


@pytest.mark.parametrize("path", ["nothing", "progress.nothing"])
def test_a_column_without_a_field_is_a_defect(path):
    with pytest.raises(KeyError):
        base.field_at(deletions.Deletion, path)
