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
