"""The sentence that precedes a decision, as a table of cases."""

import pytest

from cleanup_orchestrator.core.deletion import DeletionView, Mode, Origin
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.summaries import Foreseen, summary
from tests.unit.world import T0, deletion

LIEN = Lien("l1", "p", "legal", "court order", T0)
GOES = "75 resources in 5 services will be deleted, and the project is removed after that; "


@pytest.mark.parametrize(
    ("found", "values", "expected"),
    [
        ((75, 5, 0, 0), {}, GOES + "nothing blocks it"),
        ((75, 5, 1, 0), {}, GOES + "blocked by 1 resource"),
        ((75, 5, 3, 1), {}, GOES + "blocked by 3 resources and 1 type that could not be listed"),
        ((75, 5, 0, 2, 1), {}, GOES + "blocked by 2 types that could not be listed and 1 further blocker"),
        ((75, 5, 0, 0), {"liens": (LIEN,)}, GOES + "blocked by 1 lien"),
        ((75, 5, 1, 1), {"liens": (LIEN, LIEN), "brake": Brake(True, "why")}, "blocked by 1 resource, 1 type that "
         "could not be listed, 2 liens and the brake"),
        ((1, 1, 0, 0), {"mode": Mode.PURGE}, "1 resource in 1 service will be deleted, and the project stays; nothing"),
        ((0, 0, 0, 0), {}, "no resource will be deleted, and the project is removed after that; nothing blocks it"),
        ((0, 0, 0, 4), {}, "no resource will be deleted, and the project is removed after that; blocked by 4 types"),
        ((1, 1, 0, 0), {"origin": Origin.ADOPTED}, "1 resource in 1 service will be deleted; nothing blocks it"),
        ((2, 1, 0, 0), {"waivers": ("w",)}, "nothing blocks it; 1 waiver: what it covers is not listed"),
        ((2, 1, 0, 0), {"waivers": ("v", "w")}, "nothing blocks it; 2 waivers: what they cover is not listed"),
        ((9, 1, 0, 0, 0, 8), {}, "after that; blocked by the approval for more than 8 resources"),
        ((9, 1, 1, 0, 0, 1), {}, "blocked by 1 resource and the approval for more than 1 resource"),
        ((2, 1, 0, 0), {"children": ("c",)}, "nothing blocks it; 1 project below, of which this says nothing"),
    ],
)  # fmt: skip
def test_the_first_line_before_a_decision(found, values, expected):
    holds = {name: values.pop(name) for name in ("liens", "brake", "children") if name in values}
    d = DeletionView.of(deletion(**values), **holds)
    assert expected in summary(d, Foreseen(*found))
