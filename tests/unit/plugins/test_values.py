"""Which attribute of which type has its size, and how it is read."""

import decimal

import pytest

from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import GIB, ResourceType
from cleanup_orchestrator.plugins.values import MAX_BYTES

#: By type: no other type declares a size.
SIZES = {
    "block-storage.backup": ("size", GIB),
    "block-storage.snapshot": ("size", GIB),
    "block-storage.volume": ("size", GIB),
    "database.instance": ("volume.size", GIB),
    "image.image": ("size", 1),
    "object-store.container": ("bytes", 1),
    "shared-file-system.backup": ("size", GIB),
    "shared-file-system.share": ("size", GIB),
    "shared-file-system.snapshot": ("size", GIB),
}


def thing(size):
    return ResourceType("thing", list=lambda *_: (), delete=None, size=size)


def test_the_types_whose_list_shows_a_size_declare_it():
    types = {f"{s.service_type}.{t.name}": t.size for s in registry.load().services.values() for t in s.types}
    assert {name: size for name, size in types.items() if size is not None} == SIZES


@pytest.mark.parametrize(
    ("value", "unit", "size"),
    [
        (0, GIB, 0),
        (12, 1, 12),
        (340, GIB, 340 * GIB),
        (0.5, GIB, GIB // 2),
        (1.9, 1, 1),
        ("10", GIB, 10 * GIB),
        (decimal.Decimal("2.5"), 2, 5),
        (MAX_BYTES, 1, MAX_BYTES),
        (MAX_BYTES + 1, 1, None),
        (2**33, GIB, None),
        (10**30, GIB, None),
        (1e308, GIB, None),
        (float("inf"), 1, None),
        (float("nan"), 1, None),
        ("nan", 1, None),
        (-1, GIB, None),
        (-0.5, 1, None),
        (None, GIB, None),
        (True, GIB, None),
        ("", 1, None),
        ("10 GiB", 1, None),
        ([], 1, None),
        ({}, 1, None),
        (object(), 1, None),
    ],
)
def test_a_size_is_a_number_of_bytes_or_unknown(value, unit, size):
    found = thing(("size", unit)).size_of({"size": value})
    assert (found, type(found)) == (size, type(size))


@pytest.mark.parametrize(
    ("row", "size"),
    [({"volume": {"size": 2}}, 2 * GIB), ({"volume": None}, None), ({"volume": "2"}, None), ({}, None)],
)
def test_a_size_may_be_inside_of_an_attribute(row, size):
    assert thing(("volume.size", GIB)).size_of(row) == size


@pytest.mark.parametrize("declared", ["size", ("size",), ("size", "GiB"), ("size", None), (None, 1), 7, ()])
def test_a_wrong_declaration_is_no_error(declared):
    """It must not make the list of the type unknown."""
    assert thing(declared).size_of({"size": 10**9}) is None


def test_a_type_without_a_size_has_none():
    assert thing(None).size_of({"size": 1}) is None
