"""Keystone's notifications are hints: any client of the bus can send any message."""

import types

import pytest

from cleanup_orchestrator.engine.keystone_listener import Listener

ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("payload", "heard"),
    [
        ({"resource_info": ID}, (ID, "")),
        ({"target": {"id": ID}, "initiator": {"user_id": "u1"}}, (ID, "u1")),
        ({"resource_info": ID, "initiator": {"id": "a\nb"}}, (ID, "")),
        ({"resource_info": ID, "initiator": "somebody"}, (ID, "")),
        ({"resource_info": f"{ID}/../{ID}"}, None),
        ({"resource_info": ".."}, None),
        ({"resource_info": f"{ID}?subtree_as_list"}, None),
        ({"resource_info": f"{ID}%2f"}, None),
        ({"resource_info": f"{ID}\n"}, None),
        ({"resource_info": {"id": ID}}, None),
        ({"resource_info": "x" * 65}, None),
        ({"target": [ID]}, None),
        ({}, None),
    ],
)
def test_an_invalid_id_is_dropped_before_any_call(monkeypatch, payload, heard):
    found = []
    listener = Listener(*[types.SimpleNamespace()] * 3)
    monkeypatch.setattr(listener, "deleted", lambda *ids: found.append(ids))
    assert listener.info({}, "identity.host", "identity.project.deleted", payload, {}) is None
    assert found == ([heard] if heard else [])
