"""Guards the token fence: who may change it, and what others may change in a fenced project.

The proof that a project is empty rests on its fence. So only the orchestrator's user sets a fence. An admin may lift
it. Each change increases the serial of the project's fence in the same transaction, and records who made it. The
orchestrator compares the serial, so that a fence that was lifted and set again does not count as one that was there all
the time.

While a project is fenced, no other caller changes ``enabled``, options, tags, name or role assignments of the project,
creates a project below it, or deletes the project or its domain: 409. A name on the never-delete list, or a project
below, would end the deletion, so that such a change would be a cancel without the policy of a cancel. Keystone itself
lets no project move to another parent or domain. The way out is a cancel of the deletion, or an admin who lifts the
fence. No credential, application credential or trust is made for a user that fences do not stop: it would outlive the
token of that user.

The checks are wrapped around Keystone's managers, and the serial around the SQL driver of projects, so that every route
passes them. A call without a caller passes: ``keystone-manage``, and the role assignments of a federated login.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

from cleanup_orchestrator.keystone import protocol
from cleanup_orchestrator.keystone.assumptions import Unsupported
from cleanup_orchestrator.keystone.fence import is_password_login, read_fences

LOG = logging.getLogger(__name__)

Options = Mapping[str, Any]  #: the options of this package that a project has, by name

#: Options that Keystone itself sets.
READ_ONLY = frozenset({protocol.SERIAL_OPTION, protocol.CHANGED_BY_OPTION})
#: What no other caller may change in a fenced project (members of the body of ``PATCH /v3/projects/{id}``).
HELD = ("enabled", "name", "options", "tags")
_NO_CREDENTIAL = "The user belongs to cleanup-orchestrator: no credential and no trust is made for it."
#: Paths of logins. A federated login changes role assignments as the operator's mapping says.
_LOGINS = ("/auth/tokens", "/OS-FEDERATION/")
#: Projects that a message names; further ones are counted.
_NAMED = 10


@dataclasses.dataclass(frozen=True)
class Caller:
    """The user whose token came with the present request."""

    user_id: str
    orchestrator: bool = False  #: whether it is the orchestrator's user, logged in with its password
    is_admin: Callable[[], bool] = bool


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Why a request is refused. The text is for users."""

    status: int
    message: str


# ------------------------------------------------------------------------------------------- what is decided, pure
def update(project: Mapping[str, Any], options: Options, caller: Caller) -> Refusal | None:
    """Return why a caller may not change a project in this way.

    :param project: the members to change
    :param options: those that the project has now
    """
    wanted = project.get("options") or {}
    changed = {name for name in protocol.OPTION_IDS if name in wanted and wanted[name] != options.get(name)}
    if names := sorted(changed & READ_ONLY):
        return Refusal(403, f"Keystone alone sets the option {names[0]}.")
    if caller.orchestrator:
        return None
    if changed:
        if wanted.get(protocol.FENCE_OPTION, "") is None and changed == {protocol.FENCE_OPTION} and caller.is_admin():
            return None
        text = f"Only cleanup-orchestrator sets {' and '.join(sorted(changed))}, and only an admin lifts a fence."
        return Refusal(403, text)
    return change(options, caller) if any(name in project for name in HELD) else None


def change(options: Options, caller: Caller) -> Refusal | None:
    """Return why a caller may not change the state of a project, or its role assignments.

    :param options: those that the project has now
    """
    if caller.orchestrator or not options.get(protocol.FENCE_OPTION):
        return None
    return Refusal(409, held({"": options}))


def create(project: Mapping[str, Any], parent: Options, caller: Caller) -> Refusal | None:
    """Return why a project or domain may not be created with these members.

    :param parent: the options of the project above it
    """
    options = project.get("options") or {}
    if names := sorted(name for name in protocol.OPTION_IDS if options.get(name) is not None):
        return Refusal(403, f"Only cleanup-orchestrator sets the option {names[0]}, of a project that it deletes.")
    if caller.orchestrator or not parent.get(protocol.FENCE_OPTION):
        return None
    return Refusal(409, held({str(project.get("parent_id")): parent}))


def delete(
    project_id: str, fenced: Mapping[str, Options], caller: Caller, headers: Mapping[str, str]
) -> Refusal | None:
    """Return why a caller may not delete a project or a domain.

    :param fenced: the options of the project, and of the fenced projects in the domain, by project id
    :param headers: of the request
    """
    if not caller.orchestrator:
        return Refusal(409, held(fenced)) if fences(fenced) else None
    own = fenced.get(project_id, {})
    serial = headers.get(protocol.SERIAL_HEADER)
    fence, final = own.get(protocol.FENCE_OPTION), headers.get(protocol.FINAL_HEADER)
    if (fence or serial) and fence != final:
        return Refusal(409, f"The project does not have the fence of deletion {final}.{_by(own)}")
    if serial is not None and serial != str(own.get(protocol.SERIAL_OPTION)):
        return Refusal(409, f"The fence of deletion {final} was lifted and set again.{_by(own)}")
    if others := fences(fenced).keys() - {project_id}:
        return Refusal(409, held({other: fenced[other] for other in others}))
    return None


def next_options(wanted: Options, now: Options, caller: Caller | None, clock: int) -> dict[str, Any]:
    """Return the options to store for the wanted ones.

    The serial grows with each change of the fence. It is not below the clock: a Keystone process without this package
    drops all of these options, and a serial must not be used again.

    :param wanted: options of a request, those of other packages included
    :param now: the options of this package that the project has, read in the transaction that stores the new ones
    :param clock: milliseconds since 1970
    """
    stored = {name: value for name, value in wanted.items() if name not in READ_ONLY}
    fence, before = protocol.FENCE_OPTION, now.get(protocol.FENCE_OPTION)
    if fence not in stored or stored[fence] == before:
        return stored
    serial = now.get(protocol.SERIAL_OPTION)
    stored[protocol.SERIAL_OPTION] = max(serial + 1 if isinstance(serial, int) else 0, clock)
    stored[protocol.CHANGED_BY_OPTION] = (caller and caller.user_id) or None
    if before is not None:  # the janitor was that of the earlier fence
        stored.setdefault(protocol.JANITOR_OPTION, None)
    return stored


def fences(by_project: Mapping[str, Options]) -> dict[str, str]:
    """Return the id of the deletion of each project that is fenced."""
    fenced = {project_id: options.get(protocol.FENCE_OPTION) for project_id, options in by_project.items()}
    return {project_id: str(fence) for project_id, fence in fenced.items() if fence}


def held(by_project: Mapping[str, Options]) -> str:
    """Return the text for a caller whose request is refused because of fences."""
    fenced = sorted(fences(by_project).items())
    named = ", ".join(f"{fence} (project {project})" if project else fence for project, fence in fenced[:_NAMED])
    more = f" and {len(fenced) - _NAMED} more" if len(fenced) > _NAMED else ""
    return (
        f"The project is being deleted, and has a token fence: deletion {named}{more}. Until the deletion ends, only "
        "cleanup-orchestrator changes the project's name, state, options, tags and role assignments, creates a project "
        "below it, and deletes it. "
        "Follow or cancel the deletion with 'openstack project deletion'. If the deletion does not exist, an "
        f"admin lifts the fence: PATCH the project with {{'options': {{'{protocol.FENCE_OPTION}': null}}}}."
    )


def _by(options: Options) -> str:
    changed_by = options.get(protocol.CHANGED_BY_OPTION)
    return f" User {changed_by} changed the fence." if changed_by else ""


# --------------------------------------------------------------------------------------------------- around Keystone
class Guard:
    """The checks, with what they read from Keystone.

    :param user_id: id of the orchestrator's user
    """

    def __init__(self, user_id: str) -> None:
        self._user_id = user_id

    def caller(self) -> Caller | None:
        """Return who makes the present request; ``None``: there is no request, or it came without a token."""
        import flask
        from keystone.common import authorization, context

        if not flask.has_request_context():
            return None
        environ = flask.request.environ
        if any(part in environ.get("PATH_INFO", "") for part in _LOGINS):
            return None  # a client may send an earlier token with a login
        who = environ.get(context.REQUEST_CONTEXT_ENV)
        if not getattr(who, "authenticated", False):
            return None
        token = (environ.get(authorization.AUTH_CONTEXT_ENV) or {}).get("token")
        own = token is not None and token.user_id == self._user_id and is_password_login(token)
        return Caller(who.user_id or "", own, _is_admin)

    def update(self, project_id: str, project: Mapping[str, Any]) -> None:
        """Check a change of a project or domain."""
        self._check(lambda caller: update(project, options_of(project_id).get(project_id, {}), caller))

    def create(self, project: Mapping[str, Any]) -> None:
        """Check a new project or domain."""
        parent_id = project.get("parent_id") or ""
        self._check(lambda caller: create(project, options_of(parent_id).get(parent_id, {}), caller))

    def delete(self, project_id: str) -> None:
        """Check the delete of a project or domain."""
        import flask

        self._check(lambda caller: delete(project_id, options_of(project_id, True), caller, flask.request.headers))

    def grant(self, project_id: str | None) -> None:
        """Check a change of the role assignments of a project; ``None``: they are of another scope."""
        if project_id:
            self._check(lambda caller: change(options_of(project_id).get(project_id, {}), caller))

    def credential(self, credential: Mapping[str, Any]) -> None:
        """Check a new credential or application credential, of every caller."""
        if credential.get("user_id") in {self._user_id, *(fence.janitor_id for fence in read_fences().values())} - {""}:
            _refuse(Refusal(403, _NO_CREDENTIAL))

    def authorization(self, user_id: str) -> None:
        """Check an authorization of OAuth1: the consumer gets a credential of the user who gives it."""
        self.credential({"user_id": user_id})

    def trust(self, trust: Mapping[str, Any]) -> None:
        """Check a new trust.

        A janitor may make one: Heat acts through a trust of the janitor while it deletes a stack. The trust reaches no
        other project, and it is deleted with the janitor.
        """
        if trust.get("trustor_user_id") == self._user_id:
            _refuse(Refusal(403, _NO_CREDENTIAL))

    def _check(self, decide: Callable[[Caller], Refusal | None]) -> None:
        caller = self.caller()
        if caller is not None and (refusal := decide(caller)) is not None:
            LOG.info("refused for user %s: %s", caller.user_id, refusal.message)
            _refuse(refusal)


def options_of(project_id: str, domain: bool = False) -> dict[str, dict[str, Any]]:
    """Return this package's options of a project, by one query in a new transaction.

    :param domain: whether those of the projects in the domain of that id are returned, too
    """
    from keystone.common import sql
    from keystone.resource.backends.sql_model import Project, ProjectOption

    names = {id_: name for name, id_ in protocol.OPTION_IDS.items()}
    with sql.session_for_read() as session:
        query = session.query(ProjectOption.project_id, ProjectOption.option_id, ProjectOption.option_value)
        query = query.filter(ProjectOption.option_id.in_(names))
        own = ProjectOption.project_id == project_id
        if domain:
            query = query.join(Project, Project.id == ProjectOption.project_id)
            query = query.filter(own | (Project.domain_id == project_id))
        else:
            query = query.filter(own)
        by_project: dict[str, dict[str, Any]] = {}
        for id_, option_id, value in query:
            by_project.setdefault(id_, {})[names[option_id]] = value
        return by_project


def _is_admin() -> bool:
    """Return whether the caller is an admin of the cloud: one who may delete any domain."""
    from keystone import exception
    from keystone.common.rbac_enforcer import enforcer

    try:
        enforcer.RBACEnforcer.enforce_call(action="identity:delete_domain", target_attr={"domain": {}})
    except exception.Forbidden:
        return False
    return True


def _refuse(refusal: Refusal) -> NoReturn:
    """Raise Keystone's error for a refusal."""
    from keystone import exception

    kinds = {403: exception.ForbiddenNotSecurity, 409: exception.Conflict}
    raise kinds[refusal.status](message=refusal.message)


def install(user_id: str) -> Guard:
    """Wrap Keystone's managers with the checks, and the SQL driver of projects with the serial; return the guard.

    :raises Unsupported: this release of Keystone lacks a method
    """
    from keystone.application_credential.core import Manager as ApplicationCredentials
    from keystone.assignment.core import Manager as Assignments
    from keystone.credential.core import Manager as Credentials
    from keystone.oauth1.backends.sql import OAuth1
    from keystone.resource.backends.sql import Resource
    from keystone.resource.core import Manager as Projects
    from keystone.trust.core import Manager as Trusts

    guard = Guard(user_id)
    checks: tuple[tuple[Any, str, Callable[..., None], tuple[str, ...]], ...] = (
        (Projects, "create_project", guard.create, ("project",)),
        (Projects, "create_domain", guard.create, ("domain",)),
        (Projects, "update_project", guard.update, ("project_id", "project")),
        (Projects, "update_domain", guard.update, ("domain_id", "domain")),
        (Projects, "delete_project", guard.delete, ("project_id",)),
        (Projects, "delete_domain", guard.delete, ("domain_id",)),
        (Assignments, "create_grant", guard.grant, ("project_id",)),
        (Assignments, "delete_grant", guard.grant, ("project_id",)),
        (Credentials, "create_credential", guard.credential, ("credential",)),
        (Credentials, "update_credential", guard.credential, ("credential",)),
        (ApplicationCredentials, "create_application_credential", guard.credential, ("application_credential",)),
        (Trusts, "create_trust", guard.trust, ("trust",)),
        (OAuth1, "authorize_request_token", guard.authorization, ("user_id",)),  # the driver: its manager has no such
    )
    for owner, name, check, parameters in checks:
        _check_before(owner, name, check, parameters)
    _count_changes(Resource, guard)
    return guard


def _check_before(owner: Any, name: str, check: Callable[..., None], parameters: Collection[str]) -> None:
    """Wrap a method: call the check with some of its arguments first."""
    method = getattr(owner, name, None)
    signature = inspect.signature(method) if method else None
    if method is None or signature is None or not set(parameters) <= signature.parameters.keys():
        text = f"{owner.__module__} has no {name}({', '.join(parameters)})"
        raise Unsupported(f"this release of Keystone is not supported: {text}")

    @functools.wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        check(*(bound.arguments[parameter] for parameter in parameters))
        return method(*args, **kwargs)

    setattr(owner, name, checked)


def _count_changes(driver: Any, guard: Guard) -> None:
    """Wrap the driver's update of a project: store the serial with the fence, in one transaction."""
    store = driver.update_project

    @functools.wraps(store)
    def update_project(self: Any, project_id: str, project: Mapping[str, Any]) -> Any:
        wanted = project.get("options") or {}
        if not protocol.OPTION_IDS.keys() & wanted.keys():
            return store(self, project_id, project)
        from keystone.common import sql
        from keystone.resource.backends.sql_model import Project

        with sql.session_for_write() as session:
            # An update first: it locks the row, so that changes of one fence follow each other.
            row = session.query(Project).filter(Project.id == project_id)
            row.update({Project.enabled: Project.enabled}, synchronize_session=False)
            now, caller = options_of(project_id).get(project_id, {}), guard.caller()
            # Decided once more, because a fence may have been set since the check of the request.
            if caller is not None and (refusal := update(project, now, caller)) is not None:
                _refuse(Refusal(403, refusal.message))  # a 409 would become one about the project's name
            options = next_options(wanted, now, caller, int(time.time() * 1000))
            return store(self, project_id, {**project, "options": options})

    driver.update_project = update_project
