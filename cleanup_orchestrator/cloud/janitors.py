"""The janitors: users that the orchestrator makes in Keystone, one for each deletion that needs it.

A janitor has roles on the project of its deletion only, and is deleted with it. Keystone then deletes its application
credentials, trusts, EC2 credentials and grants, so that nothing outlives the deletion that was made with its token.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
from typing import Any
from urllib.parse import quote

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from cleanup_orchestrator.errors import BadAnswer, NoJanitor, body, expect_keystones

GROUP = "janitor"
OPTS = {
    GROUP: [
        cfg.StrOpt(
            "secret",
            default="",
            secret=True,
            help="A long random text, from which the passwords of the janitors are derived: 'openssl rand -hex 32'. "
            "All workers need the same one, and no other process needs it. If it is empty, there is no janitor, and "
            "what is deleted with its token stays. If it is changed, deletions that are under way name their janitors, "
            "which are then to be deleted by hand.",
        ),
        cfg.StrOpt(
            "domain_id",
            help="Id of the domain of the janitors, whose users Keystone itself stores, and not a read-only LDAP. "
            "It should have no domain manager, who could reset the password of a janitor. The default is the domain "
            "of the orchestrator's user.",
        ),
        cfg.ListOpt(
            "roles",
            default=["member"],
            help="Roles that the janitor gets on a project while the project's stacks and clusters are deleted, and "
            "while what Trove and Tacker show to members only is listed. These grants are recorded and taken back. "
            "Heat and Magnum execute what the project's users wrote with the token of the delete request, so this "
            "token must allow no more than those users may do. None of the roles may be 'admin', or imply it.",
        ),
    ]
}

_PREFIX = "cleanup-janitor-"
#: Most password rules require upper and lower case letters, a digit and a symbol.
_EACH_KIND = "Aa1!"
#: Options of the users that are made. Without these, rules of ``[security_compliance]`` in keystone.conf could lock the
#: user out. With ``lock_password`` a token of the user cannot change its password.
KEPT_USABLE = {
    "ignore_change_password_upon_first_use": True,
    "ignore_password_expiry": True,
    "ignore_lockout_failure_attempts": True,
    "lock_password": True,
}
_REFUSED = (
    ka_exceptions.BadRequest,
    ka_exceptions.Forbidden,
    ka_exceptions.NotFound,
    ka_exceptions.MethodNotAllowed,
    ka_exceptions.HttpNotImplemented,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Janitor:
    """The user of one deletion."""

    name: str
    domain_id: str
    password: str = dataclasses.field(repr=False)


def user_name(deletion_id: str) -> str:
    """Return the name of the janitor of a deletion. The orchestrator deletes no user of another name."""
    return _PREFIX + deletion_id


def password(secret: str, deletion_id: str) -> str:
    """Return the password of the janitor of a deletion, which is stored nowhere: 47 characters."""
    digest = hmac.new(secret.encode(), user_name(deletion_id).encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=") + _EACH_KIND


class Users:
    """The users of Keystone, with the orchestrator's admin token."""

    def __init__(self, identity: Adapter) -> None:
        self._identity = identity

    def find(self, name: str, domain_id: str) -> str:
        """Return the id of the user with exactly this name in this domain; empty: there is none.

        :raises BadAnswer: Keystone did not list all of them
        """
        path = f"/users?name={quote(name, safe='')}&domain_id={quote(domain_id, safe='')}"
        said = body(self._identity.get(path), "users")
        ids = [str(row["id"]) for row in said["users"] if (row["name"], row["domain_id"]) == (name, domain_id)]
        if len(ids) > 1 or said.get("truncated"):
            raise BadAnswer(f"Keystone did not list the one user {name}")
        return ids[0] if ids else ""

    def make(self, janitor: Janitor, description: str) -> str:
        """Make a user, and return its id. Idempotent: there may be one by the same name.

        :raises NoJanitor: Keystone makes no such user
        """
        user: dict[str, Any] = {"name": janitor.name, "domain_id": janitor.domain_id, "password": janitor.password}
        user |= {"description": description, "enabled": True, "options": KEPT_USABLE}
        try:
            return str(body(self._identity.post("/users", json={"user": user}), "user")["user"]["id"])
        except ka_exceptions.Conflict as error:  # another step of the deletion has made it, or its answer was lost
            if user_id := self.find(janitor.name, janitor.domain_id):
                return user_id
            refused: ka_exceptions.HttpError = error
        except _REFUSED as error:
            refused = error
        raise NoJanitor(
            f"Keystone makes no user {janitor.name} in domain {janitor.domain_id} (HTTP {refused.http_status}: "
            f"{refused.message}): name a domain in [{GROUP}] domain_id whose users Keystone itself stores, and in "
            "which the orchestrator's user may make users with a password of 47 characters"
        )

    def remove(self, name: str, domain_id: str) -> bool:
        """Delete the user with exactly this name in this domain; return ``False`` if there is none.

        :raises BadAnswer: something else than Keystone answers 404
        """
        user_id = self.find(name, domain_id)
        if not user_id:
            return False
        try:
            self._identity.delete(f"/users/{user_id}")
        except ka_exceptions.NotFound as error:
            expect_keystones(error)
            return False
        return True
