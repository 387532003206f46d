"""The members of a closed set are their text, also where Python has no ``enum.StrEnum``."""

import enum
import json

from cleanup_orchestrator.core.enums import StrEnum


class Size(StrEnum):
    SMALL = "small"


def test_a_member_is_its_text():
    assert [str(Size.SMALL), f"{Size.SMALL}", f"{Size.SMALL:>6}"] == ["small", "small", " small"]
    assert json.dumps({Size.SMALL: Size.SMALL}) == '{"small": "small"}'
    assert Size("small") is Size.SMALL and Size.SMALL == "small" and isinstance(Size.SMALL, enum.Enum)
