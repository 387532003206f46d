"""The pages that change what a request says about itself."""

import pytest

from tests.unit.dashboard.test_pages import ID, Api, a_plan, actions, deletion, found, posted, previewed, site, view

__all__ = ["previewed", "site"]  # fixtures
DATE = "2099-01-31T00:00"


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        ({"ticket": " CHG-7 "}, {"ticket": "CHG-7"}),
        ({"not_before": DATE}, {"not_before": "2099-01-31T00:00:00Z"}),
        ({"begin_now": "on"}, {"not_before": None}),
        ({"request_reason": "over", "begin_now": "on"}, {"request_reason": "over", "not_before": None}),
    ],
)
def test_a_change_has_what_was_filled_in(data, changes):
    form = actions.ChangeForm(data)
    assert form.is_valid(), form.errors
    assert form.changes() == changes


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "__all__"),
        ({"begin_now": "on", "not_before": DATE}, "begin_now"),
        ({"not_before": "2020-01-01T00:00"}, "not_before"),
    ],
)
def test_a_change_without_an_effect_is_refused(data, field):
    assert list(actions.ChangeForm(data).errors) == [field]


@pytest.mark.parametrize(
    ("values", "made"),
    [
        ({"not_before": "T"}, ["set_deletion"]),
        ({"not_before": "T2"}, []),  # moved since the page was shown
        ({"not_before": "T", "finished_at": "T"}, []),
        ({"not_before": "T", "attempt": 2}, []),
    ],
)
def test_a_change_is_of_what_the_page_showed(site, values, made):
    site.api = Api(get_deletion=deletion(**values))
    posted(view(actions.Change, "post", {"shown": "1 T", "ticket": "CHG-7"}, deletion_id=ID))
    assert site.api.calls("get_deletion") == made


@pytest.mark.parametrize(
    ("allowed", "shown"),
    [({"cleanup:deletions:postpone"}, True), ({"cleanup:deletions:set"}, True), ({"cleanup:deletions:retry"}, False)],
)
def test_who_may_postpone_finds_the_page(site, allowed, shown):
    site.allowed = allowed
    page = view(actions.Change, deletion_id=ID)
    assert actions.changeable(page.request, deletion()) is shown
    assert not actions.changeable(page.request, deletion(finished_at="T"))


def sent(site):
    return [more for name, _args, more in site.api.made if name == "create_deletion"]


def test_what_the_request_says_goes_to_the_api(site, previewed):
    site.api = Api(create_deletion=deletion())
    said = {"record-ticket": "CHG-7", "record-request_reason": "over"}
    previewed({f"{ID}-typed": "demo", **said}, found(a_plan()))
    [made] = sent(site)
    assert (made["ticket"], made["request_reason"], "not_before" in made) == ("CHG-7", "over", False)
    assert made["plan_id"]


def test_a_deletion_with_a_date_is_not_bound_to_a_list_of_today(site, previewed):
    site.api = Api(create_deletion=deletion())
    previewed({f"{ID}-typed": "demo", "record-not_before": DATE}, found(a_plan()))
    [made] = sent(site)
    assert made["not_before"] == "2099-01-31T00:00:00Z" and "plan_id" not in made


def test_a_wrong_date_requests_nothing(site, previewed):
    site.api = Api(create_deletion=deletion())
    assert previewed({f"{ID}-typed": "demo", "record-not_before": "2020-01-01T00:00"}, found(a_plan())) == "shown again"
    assert site.api.calls() == []
