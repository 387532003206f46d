"""Which errors a repetition helps, and which end a login."""

import types

import pytest
from keystoneauth1 import exceptions as ksa_exceptions

from cleanup_orchestrator import sdk
from cleanup_orchestrator.sdk import errors


def answer(status):
    return types.SimpleNamespace(
        status_code=status,
        headers={"content-type": "application/json"},
        json=lambda: {"errors": [{"status": status, "code": "x", "detail": "refused"}]},
        url="https://cleanup.example.com/v1",
        reason="",
        text="",
    )


@pytest.mark.parametrize(
    ("status", "temporary"),
    [(400, False), (401, False), (403, False), (404, False), (408, True), (409, False), (429, True), (500, True),
     (503, True)],
)  # fmt: skip
def test_which_errors_a_repetition_helps(status, temporary):
    assert errors.temporary(errors.from_response(answer(status))) is temporary
    assert errors.temporary(sdk.Unreachable("no answer"))
    assert not errors.temporary(sdk.LoginLost("expired"))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ksa_exceptions.ConnectFailure("refused"), sdk.Unreachable),
        (ksa_exceptions.ServiceUnavailable("down"), sdk.Unreachable),
        (ksa_exceptions.Unauthorized("expired"), sdk.LoginLost),
        (ksa_exceptions.MissingAuthPlugin("none"), sdk.LoginLost),
    ],
)
def test_only_a_keystone_that_refuses_ends_a_login(error, kind):
    assert type(errors.of_login(error)) is kind
