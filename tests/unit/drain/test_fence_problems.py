"""What the fence driver makes of what Keystone's processes answer: whose fault it is, and when it looks again."""

import types

import pytest

from cleanup_orchestrator.cloud.session import TOKEN_SECOND
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.drain import fence
from cleanup_orchestrator.drain.base import NotHeld
from cleanup_orchestrator.drain.fence import Fence
from cleanup_orchestrator.errors import NoProjectToken, ScopeDisabled

OPEN = f"a Keystone process still accepts tokens for the project: {fence._INSTALL}"
DISABLED = ScopeDisabled("domain D is disabled; as an admin: openstack domain set --enable D")


class Clouds:
    """Gives a token, or the next of these errors."""

    def __init__(self, *errors):
        self.errors, self.tokens = list(errors), 0
        self.fences_checked_at = []

    def project_auth(self, _project_id, fresh=False):
        self.tokens += fresh

    def project_session(self, _project_id):
        if self.errors and (error := self.errors.pop(0)):
            raise error
        return types.SimpleNamespace(get_token=lambda: "token")


class Projects:
    """One project, enabled, with the fence of the deletion."""

    def get_uncached(self, _project_id):
        return types.SimpleNamespace(enabled=True, fence="d", fence_serial=7, janitor=None)

    def set_fence(self, *_):
        pass


def context(*errors):
    return types.SimpleNamespace(
        clouds=Clouds(*errors), projects=Projects(), project_id="p", deletion_id="d", user_id="me",
        record_intent=lambda *_: None,
    )  # fmt: skip


@pytest.fixture
def waits(monkeypatch):
    found = []
    monkeypatch.setattr(fence.time, "sleep", found.append)
    return found


def looks(monkeypatch, *answers):
    """Let each look see these problems, one of each process."""
    left = list(answers)
    monkeypatch.setattr(fence, "probe", lambda _check, _times: left.pop(0))
    return left


@pytest.mark.parametrize(
    ("answers", "problem", "again"),
    [
        ([["", ""]], "", False),
        ([["", fence._REFUSED], ["", ""]], "", True),  # its tokens were revoked in this second
        ([["", fence._REFUSED], ["", fence._REFUSED]], fence._REFUSED, True),
        ([["", OPEN]], OPEN, False),  # a leak is never looked at twice
        ([[fence._REFUSED, OPEN]], OPEN, False),
        ([[fence._REFUSED, ""], [OPEN, ""]], OPEN, True),
    ],
)
def test_a_refused_token_is_looked_at_again_with_one_of_a_later_second(monkeypatch, waits, answers, problem, again):
    left, where = looks(monkeypatch, *answers), context()
    assert fence._problem(where) == problem
    assert waits == ([TOKEN_SECOND] if again else [])
    assert where.clouds.tokens == 1 + again and not left


def test_a_disabled_domain_is_said_and_the_lock_is_partial(monkeypatch, waits):
    """Not "check user_id in keystone.conf"."""
    result = Fence().drain(context(DISABLED))
    assert (result.full, result.reason) == (False, Reason.NO_PROJECT_TOKEN)
    assert "openstack domain set --enable D" in result.message and "keystone.conf" not in result.message
    assert result.evidence == "fence serial 7"


def test_whether_the_fence_holds_is_unknown_while_the_domain_is_disabled(monkeypatch, waits):
    """Neither that it does, nor that it was lifted."""
    with pytest.raises(ScopeDisabled):
        Fence().held(context(DISABLED))


def test_another_lack_of_a_token_is_the_configuration(monkeypatch, waits):
    with pytest.raises(NotHeld, match=r"user_id in the keystone\.conf"):
        Fence().drain(context(NoProjectToken("HTTP 401")))
