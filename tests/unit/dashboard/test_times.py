"""What the fields for a time refuse."""

import datetime

import pytest
from django import forms

from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard import times


@pytest.mark.parametrize("typed", ["tomorrow", "2027-02-30T00:00"])
def test_what_is_no_time_is_refused(typed):
    with pytest.raises(forms.ValidationError, match="UTC"):
        times.TimeField().clean(typed)


def test_an_end_is_later_than_now():
    now = datetime.datetime.now(datetime.timezone.utc)
    for minutes, allowed in ((-1, False), (1, True)):
        typed = (now + datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%S")
        if allowed:
            assert times.FutureTimeField().clean(typed) == f"{typed}Z"
        else:
            with pytest.raises(forms.ValidationError, match="already passed"):
                times.FutureTimeField().clean(typed)
