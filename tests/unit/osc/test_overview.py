"""What was found in few lines, how long ago, and what moves now."""

import datetime

import pytest

from cleanup_orchestrator.osc import overview

NOW = datetime.datetime(2026, 11, 21, 10, 0, tzinfo=datetime.timezone.utc)


def row(name, **fields):
    service, _, type_ = name.partition(".")
    return {"region": "R", "service": service, "type": type_, **fields}


def test_the_regions_of_a_type_count_together_and_empty_types_are_left_out():
    rows = [row("compute.server", delete=2), {**row("compute.server", delete=3), "region": "S"}, row("image.image")]
    assert overview.numbers(rows, "delete") == {"compute.server": 5}


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        ({}, []),
        ({"compute.server": 1, "block-storage.volume": 2}, ["1 server, 2 volumes"]),
        ({"network.port": 1}, ["1 resource: 1 network.port"]),
        (
            {"network.port": 12, "image.image": 1, "key-manager.secret": 30, "network.floating_ip": 2},
            ["1 image, 2 floating IPs", "and 42 others: 30 key-manager.secret, 12 network.port"],
        ),
    ],
)
def test_people_look_for_servers_and_volumes_first(found, lines):
    assert overview.lines(found) == lines


def test_what_does_not_fit_on_the_line_is_counted():
    (line,) = overview.lines({f"service-{n}.a-type": 10 - n for n in range(9)})
    assert line == "54 resources: 10 service-0.a-type, 9 service-1.a-type and 7 more types"
    assert len(line) < 80


def test_services_are_counted_once():
    assert overview.services(["network.port", "network.router", "image.image"]) == 2


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        ("2026-11-21T09:59:30Z", "less than a minute ago"),
        ("2026-11-21T10:00:30Z", "less than a minute ago"),  # the clock of HTTP is a second behind, or more
        ("2026-11-21T10:05:00Z", ""),  # of another clock
        ("2026-11-21T09:57:00Z", "3 minutes ago"),
        ("2026-11-21T09:00:00Z", "1 hour ago"),
        ("2026-11-19T09:00:00Z", "2 days ago"),
        (None, ""),
        ("2026-11-21", ""),
    ],
)
def test_an_age_is_said_in_its_greatest_unit(moment, text):
    assert overview.ago(moment, NOW) == text


def test_without_a_clock_of_the_server_there_is_no_age():
    assert overview.ago("2026-11-21T09:57:00Z", None) == ""


@pytest.mark.parametrize(
    ("moment", "other", "before"),
    [
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00.500000Z", True),  # as texts, the first one is later
        ("2026-11-21T10:00:00.500000Z", "2026-11-21T10:00:00Z", False),
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00Z", True),
        (None, "2026-11-21T10:00:00Z", False),
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00", False),  # without a zone
    ],
)
def test_times_are_compared_as_times(moment, other, before):
    assert overview.is_before(moment, other) is before


def test_what_moves_what_waits_and_since_when():
    rows = [
        row("compute.server", state="running", remaining=3),
        row("image.image", state="dispatched"),
        row("network.network", state="idle", outcome="", message="waits for network.port"),
        row("dns.zone", state="done", outcome="clear", message="waits for nothing"),
        *(row(f"a.type{n}", state="idle", outcome="", message="waits for compute.server") for n in range(5)),
    ]
    told = overview.moving({"status": "deleting", "status_at": "2026-11-21T10:00:00Z", "counts": rows})
    assert told == (
        "now: compute.server (3 left), image.image; network.network waits for network.port; a.type0 waits for "
        "compute.server; a.type1 waits for compute.server; 3 more; deleting since 2026-11-21T10:00:00Z"
    )
    assert overview.moving({"status": "deleting", "counts": []}) == ""


def test_a_name_of_a_service_controls_no_terminal():
    rows = [row("a\x1b[2J.b\n", state="running", delete=1)]
    assert "\x1b" not in overview.moving({"counts": rows})
    assert all(map(str.isprintable, overview.lines(overview.numbers(rows, "delete"))))
