"""Quotas that a service shows for each project: which ones count as a row of the project."""

import pytest

from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import registry
from tests.unit.answers import connection, project

#: By the full name of the type: the key of the limits in an answer, and one of them.
QUOTAS = {
    "application-container.quota": ("", "containers"),
    "block-storage.quota_set": ("quota_set", "volumes"),
    "compute.quota_set": ("quota_set", "cores"),
    "dns.quota": ("", "zones"),
    "shared-file-system.quota": ("quota_set", "shares"),
}
TYPES = {f"{name}.{type_.name}": type_ for name, service in registry.load().services.items() for type_ in service.types}


def listed(full, own, default):
    """Return the rows of a quota, where the service shows one body for the project, and one for the default."""

    def answer(_method, path, _query, _body):
        return 200, own if path.endswith("/p") else default

    service = full.partition(".")[0].replace("-", "_")
    return list(TYPES[full].list(connection(**{service: answer}), project()))


@pytest.mark.parametrize("full", QUOTAS)
@pytest.mark.parametrize("bodies", [(0, 0), (0, 1), (1, 0)], ids=["both", "own", "default"])
@pytest.mark.parametrize("wrong", [{}, [], {"quota_set": None}, {"quota_set": {}}, {"error": "internal"}])
def test_an_answer_without_limits_is_no_missing_quota(full, bodies, wrong):
    key, limit = QUOTAS[full]
    right = {limit: 3}
    bodies = [(wrong, {key: right} if key else right)[body] for body in bodies]
    with pytest.raises(BadAnswer, match=limit):
        listed(full, *bodies)


@pytest.mark.parametrize("full", QUOTAS)
@pytest.mark.parametrize(("own", "found"), [(3, 0), (4, 1)])
def test_a_quota_is_the_projects_if_it_differs_from_the_default(full, own, found):
    key, limit = QUOTAS[full]
    own, default = ({limit: value, **({"id": id_} if key else {})} for value, id_ in ((own, "p"), (3, "default")))
    rows = listed(full, *(({key: own}, {key: default}) if key else (own, default)))
    assert [(row["id"], row["project_id"]) for row in rows] == [("p", "p")] * found


@pytest.mark.parametrize("full", QUOTAS)
def test_a_quota_is_no_resource_and_goes_right_before_the_project(full):
    """As a resource it would be a leftover of each project, and the project would count as not empty."""
    assert TYPES[full].project_setting and TYPES[full].delete is not None
