"""What is stored is what every database takes."""

import pytest

from cleanup_orchestrator.core import storable


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("a port", "a port"),
        ("a\0b", "a\ufffdb"),
        ("a\ud800b", "a?b"),
        ("x" * 60_000, "x" * 60_000),
        ("x" * 60_001, "x" * 60_000 + " ..."),
        ("x" + "é" * 30_000, "x" + "é" * 29_999 + " ..."),
        (404, "404"),
    ],
    ids=["plain", "a null", "half a character", "just so much", "too much", "no half of a letter", "no text"],
)
def test_text(given, stored):
    assert storable.text(given) == stored
    assert len(storable.text(given).encode()) < 65_535


def test_a_name_is_cut_to_its_column():
    assert storable.resource_name("é" * 513) == "é" * 512
    assert storable.resource_name("a\0\ud800") == "a\ufffd?"


#: Ids that no column takes as they are.
ODD = ("a\0", "a\ufffd\0", "\ud800", "\ud801", "x" * 513, "x" * 512 + "y", "é" * 100_000, "\0" * 600)


@pytest.mark.parametrize("id_", ["", "a", "A ", "x" * 512, "é" * 512, "a\ufffd"])
def test_an_id_is_stored_as_it_is_if_its_column_takes_it(id_):
    assert storable.resource_id(id_) == id_
    assert not storable.is_shortened(id_)


def test_ids_are_not_stored_alike():
    stored = [storable.resource_id(id_) for id_ in ODD]
    assert len({*stored, "x" * 512, "a\ufffd", "?"}) == len(ODD) + 3
    for id_ in stored:
        assert storable.is_shortened(id_) and len(id_) <= 512
        assert storable.text(id_) == id_ == storable.resource_id(id_)


def test_a_resource_is_found_among_stored_ids():
    ids = storable.Ids(map(storable.resource_id, ("a", *ODD)))
    assert all(id_ in ids for id_ in ("a", *ODD))
    assert "b" not in ids and "x" * 514 not in ids


@pytest.mark.parametrize("id_", ODD)
def test_a_resource_whose_id_is_the_stored_form_of_another_is_not_found(id_):
    stored = storable.resource_id(id_)
    assert id_ in storable.Ids({stored}) and stored not in storable.Ids({stored})
