"""The hours for locking and deleting: what an entry means, by the wall clock, also where that jumps."""

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oslo_config import cfg

from cleanup_orchestrator.cloud import protection
from cleanup_orchestrator.core.delete_windows import ALWAYS, DAYS, Windows
from tests.support.cases import each_case
from tests.support.examples import examples

BERLIN = "Europe/Berlin"


def utc(text):
    return datetime.datetime.fromisoformat(text)


#: 2026-11-16 is a Monday. In Berlin clocks go forward on 2026-03-29 at 02:00 (01:00 UTC), and back on 2026-10-25 at
#: 03:00 (01:00 UTC).
@each_case(
    "entries,zone,at,open_,why",
    [
        (["mon-fri 20:00-06:00"], "UTC", "2026-11-16T19:59:59", False, "before it begins"),
        (["mon-fri 20:00-06:00"], "UTC", "2026-11-16T20:00:00", True, "it begins"),
        (["mon-fri 20:00-06:00"], "UTC", "2026-11-17T05:59:59.999999", True, "over midnight"),
        (["mon-fri 20:00-06:00"], "UTC", "2026-11-17T06:00:00", False, "its end is not in it"),
        (["mon-fri 20:00-06:00"], "UTC", "2026-11-16T03:00:00", False, "Sunday's has not been"),
        (["mon-fri 20:00-06:00"], "UTC", "2026-11-21T03:00:00", True, "Friday's reaches into Saturday"),
        (["mon-fri 20:00-06:00"], "UTC", "2026-11-21T21:00:00", False, "Saturday has none"),
        (["sat-mon 10:00-11:00"], "UTC", "2026-11-22T10:30:00", True, "days over the end of the week"),
        (["sat-mon 10:00-11:00"], "UTC", "2026-11-17T10:30:00", False, "Tuesday is not between them"),
        (["sun 22:00-02:00"], "UTC", "2026-11-16T01:00:00", True, "from Sunday into Monday"),
        (["22:00-05:00"], "UTC", "2026-11-18T23:00:00", True, "without a day: every day"),
        (["sat 00:00-24:00"], "UTC", "2026-11-21T23:59:00", True, "a whole day"),
        (["sat 00:00-24:00"], "UTC", "2026-11-22T00:00:00", False, "and not longer"),
        ([" MON 8:00 - 9:00 "], "UTC", "2026-11-16T08:30:00", True, "upper case, spaces, one digit"),
        (["mon 08:00-09:00", "tue 08:00-09:00"], "UTC", "2026-11-17T08:30:00", True, "any of several"),
        ([], "UTC", "2026-11-17T08:30:00", True, "none: always"),
        (["20:00-06:00"], BERLIN, "2026-11-16T18:59:00", False, "winter: 19:59 there"),
        (["20:00-06:00"], BERLIN, "2026-11-16T19:00:00", True, "winter: 20:00 there"),
        (["20:00-06:00"], BERLIN, "2026-07-16T18:00:00", True, "summer: 20:00 there"),
        (["mon 00:00-02:00"], BERLIN, "2026-11-15T23:30:00", True, "what counts is the day there"),
        (["02:15-02:45"], BERLIN, "2026-03-29T00:59:00", False, "01:59, and then it is 03:00"),
        (["02:15-02:45"], BERLIN, "2026-03-29T01:00:00", False, "03:00: it was skipped"),
        (["02:30-04:00"], BERLIN, "2026-03-29T01:00:00", True, "03:00: it has begun with the jump"),
        (["02:15-02:45"], BERLIN, "2026-10-25T00:30:00", True, "02:30 for the first time"),
        (["02:15-02:45"], BERLIN, "2026-10-25T00:50:00", False, "02:50 for the first time"),
        (["02:15-02:45"], BERLIN, "2026-10-25T01:30:00", True, "02:30 once more"),
        (["01:00-04:00"], BERLIN, "2026-10-25T02:59:00", True, "a night with an hour more"),
        (["01:00-04:00"], BERLIN, "2026-10-25T03:00:00", False, "and its end by the clock"),
    ],
)
def test_when_it_is_open(entries, zone, at, open_, why):
    assert Windows.of(entries, zone).open(utc(at)) is open_, why


@pytest.mark.parametrize(
    ("entries", "zone", "at", "opens"),
    [
        (["mon-fri 20:00-06:00"], "UTC", "2026-11-16T19:30:30", "2026-11-16T20:00:00"),
        (["mon-fri 20:00-06:00"], "UTC", "2026-11-16T21:30:30", "2026-11-16T21:30:00"),
        (["mon-fri 20:00-06:00"], "UTC", "2026-11-21T06:00:00", "2026-11-23T20:00:00"),
        (["20:00-06:00"], BERLIN, "2026-11-16T12:00:00", "2026-11-16T19:00:00"),
        (["02:30-04:00"], BERLIN, "2026-03-29T00:10:00", "2026-03-29T01:00:00"),
        (["sun 02:15-02:45"], BERLIN, "2026-03-28T12:00:00", "2026-04-05T00:15:00"),
        (["01:00-02:30"], BERLIN, "2026-10-25T00:40:00", "2026-10-25T01:00:00"),
    ],
)
def test_when_it_opens_next(entries, zone, at, opens):
    assert Windows.of(entries, zone).opens(utc(at)) == utc(opens)


@pytest.mark.parametrize(
    "entry",
    [
        "always",
        "mon-fri",
        "mon,tue 10:00-11:00",
        "monday 10:00-11:00",
        "mon 10-11",
        "10:00-10:00",
        "24:00-06:00",
        "10:00-24:01",
        "10:60-11:00",
        "25:00-26:00",
        "fri-mon-tue 10:00-11:00",
        "10:00-11:00 mon",
    ],
)
def test_what_is_no_window_is_refused_by_name(entry):
    with pytest.raises(ValueError, match="is no window"):
        Windows.of([entry], "UTC")


def test_an_unknown_time_zone_is_refused_by_name():
    for zone in ("Mars/Olympus", "../etc/passwd", ""):
        with pytest.raises(ValueError, match="is no time zone"):
            Windows.of([], zone)


clock = st.builds("{:02d}:{:02d}".format, st.integers(0, 23), st.integers(0, 59))
entry = st.tuples(st.sampled_from(["", *(f"{a}-{b} " for a in DAYS for b in DAYS)]), clock, clock).filter(
    lambda parts: parts[1] != parts[2]
)
zones = st.sampled_from(["UTC", BERLIN, "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
times = st.datetimes(datetime.datetime(2026, 1, 1), datetime.datetime(2028, 1, 1))


@settings(max_examples=examples(25))
@given(st.lists(entry, min_size=1, max_size=3), zones, times)
def test_it_is_open_when_it_opens_and_closed_until_then(entries, zone, at):
    windows = Windows.of([f"{days}{begin}-{end}" for days, begin, end in entries], zone)
    opens = windows.opens(at)
    assert windows.open(opens)
    assert windows.open(at) is (opens <= at)
    assert opens - at < datetime.timedelta(days=15)
    if opens > at:
        before = opens - datetime.timedelta(minutes=1)
        assert not windows.open(before)
        assert not windows.open(at + (before - at) / 2)


def test_no_windows_are_always_open_and_ask_for_no_time_zone():
    assert ALWAYS.open(utc("2026-11-16T00:00:00"))
    assert Windows.of([" "], "UTC") == ALWAYS


# ------------------------------------------------------------------------------------------------ the configuration
def conf(tmp_path, **values):
    made = cfg.ConfigOpts()
    made.register_opts(protection.OPTS["deletion"], group="deletion")
    path = tmp_path / "x.conf"
    path.write_text("[deletion]\n" + "".join(f"{name} = {value}\n" for name, value in values.items()))
    made(["--config-file", str(path)])
    return made


def test_the_operator_writes_them_as_a_list(tmp_path):
    values = {"delete_windows": "mon-fri 20:00-06:00, sat-sun 00:00-24:00", "delete_windows_time_zone": BERLIN}
    windows = protection.hold_options(conf(tmp_path, **values)).windows
    assert windows == Windows.of(["mon-fri 20:00-06:00", "sat-sun 00:00-24:00"], BERLIN)
    assert protection.hold_options(conf(tmp_path)).windows == ALWAYS


@pytest.mark.parametrize(
    ("name", "value"), [("delete_windows", "mon 10-11"), ("delete_windows_time_zone", "Mars/Olympus")]
)
def test_a_mistake_is_found_when_the_configuration_is_read(tmp_path, name, value):
    """And not at SIGHUP, where oslo.config would take what it cannot read."""
    assert not any(option.mutable for option in protection.OPTS["deletion"])
    with pytest.raises(ValueError, match="is no"):
        protection.hold_options(conf(tmp_path, **{name: value}))
