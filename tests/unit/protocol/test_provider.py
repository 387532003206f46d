"""What a provider may offer, and what is no provider."""

import pytest

from cleanup_orchestrator import protocol
from cleanup_orchestrator.protocol import Capabilities, Provider, ResourceType
from tests.unit.protocol.caller import PROJECT, Client
from tests.unit.protocol.test_wsgi import Store, raising


@pytest.mark.parametrize(
    ("capabilities", "functions", "why"),
    [
        (Capabilities("Widget Store", ()), {}, "not a type of a service"),
        (Capabilities("w", (ResourceType("Widget"),)), {}, "'Widget' is not a name of a type"),
        (Capabilities("w", (ResourceType("a"), ResourceType("a"))), {}, "two types have the name a"),
        (Capabilities("w", (ResourceType("a", deleted_with=("b",)),)), {}, "unknown types: b"),
        (Capabilities("w", (ResourceType("a", deleted_with=("a",)),)), {}, "a: it is deleted with itself"),
        (Capabilities("w", (ResourceType("a", after=("b",)),)), {}, "a: after names unknown types: b"),
        (Capabilities("w", (ResourceType("a", after=("w.b",)),)), {}, "a: after names unknown types: b"),
        (Capabilities("w", (ResourceType("a", after=("Compute",)),)), {}, "a: after has malformed names: Compute"),
        (Capabilities("w", (ResourceType("a", after=("b")), ResourceType("b"))), {}, "a: after is no tuple"),
        (Capabilities("w", (ResourceType("a", deleted_with=("b")), ResourceType("b"))), {}, "deleted_with is no tuple"),
        (Capabilities("w", (ResourceType("a", after=("w.b",)), ResourceType("b", after=("a",)))), {}, "circle: "),
        (
            Capabilities("w", (ResourceType("a", deleted_with=("b",)), ResourceType("b", deleted_with=("a",)))),
            {},
            "deleted_with leads to no type that is deleted: a, b",
        ),
        (
            Capabilities("w", (ResourceType("a", deleted_with=("b",)), ResourceType("b", project_setting=True))),
            {},
            "deleted_with leads to no type that is deleted: a$",
        ),
        (Capabilities("w", (ResourceType("a", "x" * 1025),)), {}, "a: description has more than 1024 characters"),
        (Capabilities("w", (ResourceType("a", acts_on="x", delete_all=True),)), {}, "acts_on and delete_all"),
        (Capabilities("w", (ResourceType("a", delete=False, delete_all=True),)), {}, "delete_all without delete"),
        (Capabilities("w", (ResourceType("a", delete_all=True),)), {}, "needs the function delete_all"),
        (Capabilities("w", (ResourceType("a", acts_on="x"),)), {}, "needs the function delete_acting"),
        (Capabilities("w", (), drain=True), {"drain": id, "undrain": id}, "needs the function is_drained"),
        (Capabilities("w", ()), {"drain": id}, "do not offer what the function drain does"),
    ],
)
def test_a_provider_offers_what_it_can_do(capabilities, functions, why):
    with pytest.raises(ValueError, match=why):
        Provider(capabilities, raising(OSError()), raising(OSError()), raising(OSError()), **functions)


def test_a_provider_may_wait_for_its_own_types_and_for_other_services():
    types = (ResourceType("a", after=("b", "w.c", "compute.server")), ResourceType("b"), ResourceType("c"))
    Provider(Capabilities("w", types), id, id, id)


def test_a_type_may_be_deleted_with_several_that_are_deleted():
    types = (
        ResourceType("a", deleted_with=("b", "c")),
        ResourceType("b", deleted_with=("a", "setting")),  # with a, which is deleted with c
        ResourceType("c"),
        ResourceType("setting", project_setting=True),
        ResourceType("other_setting", deleted_with=("setting",), project_setting=True),
    )
    Provider(Capabilities("w", types), id, id, id)


def test_a_service_without_a_drain_refuses_it():
    functions = dict.fromkeys(("delete_all", "delete_acting", "drain", "undrain", "is_drained"))
    client = Client(Store(Capabilities("w", (ResourceType("widget"),)), **functions).app)
    for method in ("GET", "PUT", "DELETE"):
        answer = client(method, f"/drains/{PROJECT}")
        assert (answer.said, answer.headers["Allow"]) == ("405 not-supported", "")


def test_a_token_is_not_in_the_representation_of_a_caller():
    assert "the-token" not in repr(protocol.Caller("the-token", "u", PROJECT, ()))
