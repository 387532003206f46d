"""How sizes are shown and sorted."""

import pytest

from cleanup_orchestrator.osc.sizes import Size, text


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (None, ""),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1 MiB"),
        (340 * 2**30, "340 GiB"),
        (1000 * 2**30, "1000 GiB"),
        (2**63 - 1, "8 EiB"),
        (2**73, "8192 EiB"),
    ],
)
def test_a_size_is_shown_in_the_greatest_unit(size, shown):
    assert text(size) == shown
    assert Size(size).human_readable() == shown
    assert Size(size).machine_readable() == size


def test_sizes_are_sorted_by_their_bytes_and_unknown_ones_come_first():
    assert [one.machine_readable() for one in sorted(map(Size, [2000, None, 3, 0]))] == [None, 0, 3, 2000]
