"""The manual lists what stays in the services' databases, and the proof of the whole job allows nothing else."""

import pathlib

from tests.cloud.rows import KEPT
from tests.support.cases import each_case

PAGE = (pathlib.Path(__file__).parents[3] / "doc" / "source" / "admin" / "what-stays.rst").read_text()


@each_case("kept", KEPT, ids=lambda kept: f"{kept.database}.{kept.table}")
def test_what_stays_is_in_the_manual_with_the_reason(kept):
    assert f"   * - ``{kept.database}.{kept.table}``\n     - {kept.why}\n" in PAGE


def test_the_manual_lists_nothing_else():
    assert PAGE.count("\n   * - ``") == len(KEPT)
