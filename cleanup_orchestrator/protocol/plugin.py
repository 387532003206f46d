"""Makes a plugin of a service that speaks the project resources protocol.

The capabilities of the service say which types it has. The hooks call the protocol. The orchestrator then treats the
types like those of any plugin: it compares owners, reads each resource again right before its delete, and believes only
its second listing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins.base import (
    CONTRACT_VERSION,
    CONTROLLERS,
    Blocker,
    Composition,
    OneByOne,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Row,
    Service,
    Use,
    Verdict,
    blocker,
    verdict_naming,
)
from cleanup_orchestrator.plugins.calls import MAX_EMPTY_PAGES
from cleanup_orchestrator.protocol import calls, documents

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Why an orphan scan does not list a type.
NO_LIST_OF_ALL = "the project resources protocol has no list of the resources of all projects"


@dataclasses.dataclass(frozen=True, slots=True)
class _Hooks:
    """The hooks of one type of one service."""

    url: str  #: of the capabilities, without a slash at the end
    service_type: str
    declared: documents.ResourceType

    def list(self, connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        """Yield each row of the project's resources, over all pages.

        :raises BadAnswer: an answer is not the page that was asked for, or the pages have no end
        :raises calls.Refusal: the service answered with an error
        """
        what = f"the list of {self.declared.name}"
        query: dict[str, Any] = {"limit": documents.MAX_ROWS}
        seen: set[str] = set()
        empty = 0
        while True:
            response = self._request(connection, "GET", self._path(project), project, params=dict(query))
            calls.expect(response, what, 200)
            page = calls.document(response, "PAGE", what)
            if (page["project_id"], page["type"]) != (project.id, self.declared.name):
                raise BadAnswer(f"{what} was answered for {page['type']} of project {page['project_id']}")
            rows, marker = page["resources"], page["next"]
            if len(rows) > documents.MAX_ROWS:
                raise BadAnswer(f"{what} was answered with {len(rows)} rows, and {documents.MAX_ROWS} were asked for")
            for row in rows:
                yield _row(row)
            if marker is None:
                return
            empty = 0 if rows else empty + 1
            if marker in seen or empty > MAX_EMPTY_PAGES:
                raise BadAnswer(f"{what} has no end: its pages repeat, or are empty")
            seen.add(marker)
            query["marker"] = marker

    def show(self, connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
        """Return the row of one resource."""
        what = f"the {self.declared.name} {resource.id}"
        response = self._request(connection, "GET", self._path(project, resource), project)
        calls.expect(response, what, 200)
        return _row(calls.document(response, "RESOURCE", what))

    def delete(self, connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        """Delete one resource.

        :raises Refused: it is protected; or the service would act on what users wrote, with more power than they have
        """
        if self.declared.acts_on and project.gone:
            text = (
                f"its service acts on {self.declared.acts_on} when it is deleted, and there is no longer a token "
                "with the power of a member, because Keystone does not know the project"
            )
            raise Refused(Verdict(Reason.PROJECT_GONE, text))
        response = self._request(connection, "DELETE", self._path(project, resource), project)
        try:
            calls.expect(response, f"the delete of {self.declared.name} {resource.id}", 202, 204)
        except calls.Refusal as refusal:
            if refusal.problem is not documents.ProblemType.PROTECTED:
                raise
            raise Refused(Verdict(Reason.PROTECTED, str(refusal))) from refusal

    def used(self, _connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
        """Return the resources of other projects that use this one, as its row names them."""
        foreign = [each for each in _users(resource.data) if each["owner"] != project.id]
        return verdict_naming(project, "it is used by", foreign)

    def explain(self, connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
        """Read a resource again whose delete was refused, and return what blocks it."""
        row = self.show(connection, project, resource)
        if why := being_deleted(dataclasses.replace(resource, data=row), project):
            return Verdict(Reason.DELETING, why)
        if row["protected"]:
            return Verdict(Reason.PROTECTED, row["protected"])
        return verdict_naming(project, "it is used by", _users(row))

    def _path(self, project: ProjectDefinition, resource: Resource | None = None) -> str:
        path = f"/projects/{calls.segment(project.id)}/{self.declared.name}"
        return path if resource is None else f"{path}/{calls.segment(resource.id)}"

    def _request(
        self, connection: Connection, method: str, path: str, project: ProjectDefinition, **options: Any
    ) -> Any:
        url = self.url + path
        return calls.request(connection.session, method, url, self.service_type, project.region, **options)


def service(capabilities: documents.Capabilities, url: str, service_type: str = "") -> Service:
    """Return the plugin of a service.

    :param capabilities: what the service declares
    :param url: of the capabilities
    :param service_type: what steps call the service, if it is the second service of its type in the catalog
    """
    service_type = service_type or capabilities.service_type
    controllers = {name.partition(".")[0] for name in CONTROLLERS}
    return Service(
        service_type,
        tuple(_resource_type(_Hooks(url.rstrip("/"), service_type, declared)) for declared in capabilities.types),
        after=() if service_type in controllers else CONTROLLERS,
        roles="the role that the service requires of the user in [protocol], by default 'service'",
        contract_version=CONTRACT_VERSION,
    )


def _resource_type(hooks: _Hooks) -> ResourceType:
    declared = hooks.declared
    # A type that is deleted with another one is never deleted by itself, whether a call deletes it or not.
    deletable = declared.delete or declared.deleted_with
    template = hooks.url.replace("{", "{{").replace("}", "}}")
    one = f"{template}/projects/{{project_id}}/{declared.name}/{{id}}"
    no_call = f"no call deletes it: let an operator of {hooks.service_type} remove {declared.name} {{id}}"
    return ResourceType(
        name=declared.name,
        list=hooks.list,
        show=hooks.show,
        delete=hooks.delete if deletable else None,
        by_hand=f"with the token of a user with the role 'service': DELETE {one}" if deletable else no_call,
        after=declared.after,
        composition=Composition(
            deleted_with=declared.deleted_with,
            part_of=tuple((parent, f"part_of.{parent}") for parent in declared.deleted_with),
        ),
        keep=(kept,),
        protect=(protected, kept),
        deleting=being_deleted,
        explain=hooks.explain,
        used_by=(Use((hooks.service_type,), "does what the service decides", OneByOne(hooks.used)),),
        describe=description,
        tags="tags",
        created="" if declared.project_setting else "created_at",
        parts=(),
        token=Token.SERVICE,
        user_content=declared.acts_on,
        project_setting=declared.project_setting,
        all_projects=NO_LIST_OF_ALL,
        source=f"GET, DELETE {hooks.url}/projects/<project>/{declared.name}; the project resources protocol",
        note=declared.description,
    )


def kept(resource: Resource, _project: ProjectDefinition) -> str | None:
    """Return why a resource is not the user's, or is deleted with its parent.

    As a protection, it applies to a resource that its service began to keep after it was listed.
    """
    return resource.data["keep"] or None


def protected(resource: Resource, _project: ProjectDefinition) -> str | None:
    """Return why the service protects a resource."""
    return resource.data["protected"] or None


def being_deleted(resource: Resource, _project: ProjectDefinition) -> str | None:
    """Say that the service works on the delete of a resource."""
    return "its service is deleting it" if resource.data["state"] == documents.State.DELETING else None


def description(resource: Resource, _project: ProjectDefinition) -> str | None:
    """Return what the service says about a resource besides its name."""
    return resource.data["description"] or None


def _users(row: Row) -> list[Blocker]:
    """Return what uses a resource, as blockers."""
    return [blocker(user["type"], user["id"], user["project_id"], user["name"]) for user in row["used_by"]]


def _row(document: Row) -> Row:
    """Return a row with every field of the protocol.

    :raises BadAnswer: no request can address its id
    """
    calls.segment(document["id"])
    return documents.Resource.from_dict(document).to_dict()
