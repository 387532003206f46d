"""CloudKitty: nothing is deleted by default, because it is evidence of what a project was billed for.

A scope says until when CloudKitty has rated a project. No call deletes it, or the rated data. So the project's scopes
are kept, and the report says so.

An admin can make a price (a mapping or a threshold of the module ``hashmap``) for one project. Users see no prices.
CloudKitty rates hours or days late, and an admin can have it rate past periods again. It ignores a deleted price then,
and the bill of the project changes. So prices are kept, too, unless ``delete_prices`` is set.

The services, fields and groups of prices, and the scripts of the module ``pyscripts``, are the operator's, and name no
project. The rated data are in a store of the operator, and are not listed.

If CloudKitty collects from Gnocchi, it cannot rate what it has not collected before the resources in Gnocchi are
deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    BadAnswer,
    Collection,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "rating"

OPTIONS = (
    cfg.BoolOpt(
        "delete_prices",
        default=False,
        help="Delete the prices that CloudKitty's module hashmap has for the project alone, right before the project. "
        "What CloudKitty has not rated by then gets the prices of all projects. So does what it rates again later.",
    ),
)

_HASHMAP = "/v1/rating/module_config/hashmap"

#: Of one project, so that there is one page: CloudKitty does not sort the scopes, and pages may leave some out.
_MAX_SCOPES = 1000
_SCOPES = Rest(
    TYPE,
    "/v2/scope",
    key="results",
    query={"scope_id": "{project_id}", "limit": _MAX_SCOPES},
    accept=frozenset({200, 404}),
    from_root=True,
)
#: CloudKitty's answer if there is no scope, with status 404. It answers so only to an admin.
_NO_SCOPE = {"message": "No resource found for provided filters."}


def _collection(name: str) -> Collection:
    """Return a collection of the module ``hashmap``; a list of it has one page."""
    return Collection(TYPE, f"{_HASHMAP}/{name}", from_root=True)


def _has_scopes(connection: Connection, project: ProjectDefinition) -> bool:
    """Return whether CloudKitty has version 2 of its API, which it has only with a storage of version 2."""
    versions = Rest(TYPE, "/", from_root=True).call(connection, project).get("versions")
    if not isinstance(versions, list) or not all(isinstance(each, dict) and "id" in each for each in versions):
        raise BadAnswer("CloudKitty does not say which versions of its API it has")
    return any(each["id"] == "v2" for each in versions)


def _list_scopes(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the scopes with the project's ID: one for each way in which the project is rated.

    :raises BadAnswer: the answer is a 404 that does not say that there is no scope, or has too many rows
    """
    answer = _SCOPES.call(connection, project)
    if answer == _NO_SCOPE:
        return
    scopes = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(scopes, list) or len(scopes) >= _MAX_SCOPES:
        raise BadAnswer(f"{_SCOPES!r} answered without 'results', or with {_MAX_SCOPES} of them or more")
    for scope in scopes:
        way = "/".join(str(scope[key]) for key in ("scope_key", "fetcher", "collector"))
        yield {**scope, "id": f"{scope['scope_id']}/{way}", "name": way}


def _keep_scope(scope: Resource, project: ProjectDefinition) -> str | None:
    rated = scope.data.get("last_processed_timestamp")
    return f"CloudKitty has rated the project until {rated}: no call deletes the scope, and the rated data stay"


def _keep_price(price: Resource, project: ProjectDefinition) -> str | None:
    if project.options.get("delete_prices"):
        return None
    return "CloudKitty needs the price for what it has not rated yet: see the option delete_prices"


def _list_thresholds(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's thresholds of all services and fields. CloudKitty lists those of one parent at a time."""
    mine = {"tenant_id": project.id, "filter_tenant": "true"}
    for service in _collection("services").all.rows(connection, project):
        parent = {"service_id": service["service_id"]}
        yield from _collection("thresholds").where(**parent, **mine).rows(connection, project)
        for field in _collection("fields").where(**parent).rows(connection, project):
            yield from _collection("thresholds").where(field_id=field["field_id"], **mine).rows(connection, project)


def _price(name: str, **declared: Any) -> ResourceType:
    """Return a type of prices."""
    prices = _collection(f"{name}s")
    return ResourceType(
        name=name,
        all_projects="prices are the operator's, and are kept when their project is gone",
        show=prices.show,
        delete=prices.delete,
        owner="tenant_id",
        id=f"{name}_id",
        keep=(_keep_price,),
        project_setting=True,
        **declared,
    )


SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    options=OPTIONS,
    roles="admin on one project: with it CloudKitty lists and deletes the prices of all projects, and lists scopes. It "
    "refuses other callers, and answers 500 to a system-scoped token",
    types=(
        ResourceType(
            name="scope",
            used_by=(),
            list=_list_scopes,
            all_projects="scopes are evidence, and stay when their project is gone",
            delete=None,
            owner="scope_id",
            keep=(_keep_scope,),
            project_setting=True,
            available=_has_scopes,
            source="GET /v2/scope; cloudkitty api/v2/scope/state.py, storage_state/__init__.py, api/root.py",
            note="The scope stays active: CloudKitty still has to rate the last hours. CloudKitty answers 404 to an "
            "admin if the project has no scope. A different 404 does not count as empty. Requests to rate a period "
            "again (storage_scope_reprocessing_schedule) stay, too. With a storage of version 1 CloudKitty shows no "
            "scopes.",
        ),
        _price(
            "mapping",
            used_by=(),
            list=_collection("mappings").where(tenant_id="{project_id}", filter_tenant="true"),
            source="GET, DELETE /v1/rating/module_config/hashmap/mappings; cloudkitty "
            "rating/hash/controllers/mapping.py, rating/hash/db/sqlalchemy/api.py (list_mappings, delete_mapping), "
            "rating/hash/__init__.py (_load_rates)",
            note="CloudKitty ignores tenant_id without filter_tenant. It marks a deleted mapping, and still shows it "
            "by its ID, but not in the list.",
        ),
        _price(
            "threshold",
            used_by=(),
            list=_list_thresholds,
            title="level",
            source="GET, DELETE /v1/rating/module_config/hashmap/thresholds, GET /v1/rating/module_config/hashmap/"
            "services and fields; cloudkitty rating/hash/controllers/threshold.py",
            note="CloudKitty answers 500 to a list of all thresholds. So those of each service and each field are "
            "listed, with one call for each.",
        ),
    ),
)
