"""The rules of the protocol, and what ends a check of one."""

from __future__ import annotations

from collections.abc import Mapping

#: The rules of the protocol, by their numbers in the manual.
RULES: Mapping[int, str] = {
    1: "Authentication: without a valid token of Keystone a request is answered with 401",
    2: "Authorization: a token without the role of the protocol is answered with 403",
    3: "Capabilities: the document is valid and names the service type of the catalog",
    4: "Owner: each row carries the project that owns it, and a list has no row of another project",
    5: "Complete or an error: while a backend does not answer, a list is answered with 503",
    6: "Paging: the pages have every resource and at most `limit` rows; `next` is null only on the last page",
    7: "Empty: the list of a project that the service never saw is empty",
    8: "Show agrees with the list; what another project owns is not found",
    9: "Delete: by id, only within the project of the path; 204 means gone; 202 means `deleting` until it is gone",
    10: "Errors: each error is a problem document, so that a 404 of a proxy is told from a resource that is gone",
    11: "Drain: it can be set, read and removed again, and touches nothing that exists",
    12: "Project id: one that is empty or malformed never means all projects",
}


class Broken(Exception):
    """The service breaks the rule; the message says what was seen."""


class Unchecked(Exception):
    """The rule could not be checked; the message says why, and what to pass or to correct."""


class Unreadable(Exception):
    """A document could not be read, so that checks that need it cannot run.

    ``rule`` is the number of the rule that says so as FAILED.
    """

    def __init__(self, rule: int, seen: str) -> None:
        super().__init__(seen)
        self.rule = rule
