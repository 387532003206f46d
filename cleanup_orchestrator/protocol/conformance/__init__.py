"""The conformance test of the protocol: a vendor runs it against a service.

``cleanup-orchestrator-manage protocol check`` calls :func:`run`. The manual explains each rule
(``doc/source/protocol/checking.rst``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cleanup_orchestrator.core.conformance import Finding, Verdict
from cleanup_orchestrator.protocol.conformance import access, errors, reads, writes
from cleanup_orchestrator.protocol.conformance.rules import RULES, Broken, Unchecked, Unreadable
from cleanup_orchestrator.protocol.conformance.subject import Callers, Check, Options, Response, Send, Subject

__all__ = [
    "CHECKS",
    "NAMED",
    "RULES",
    "Callers",
    "Check",
    "Finding",
    "Options",
    "Response",
    "Send",
    "Verdict",
    "run",
]

#: In the order in which they run: reads, writes that must do nothing, the drain, deletes; then what judges all answers.
CHECKS: tuple[Check, ...] = (
    *access.READS,
    *reads.CHECKS,
    *errors.READS,
    *writes.READS,
    *access.WRITES,
    *writes.DRAINS,
    *writes.DELETES,
    *errors.LAST,
)
#: The checks by their names: the ids of the rules in the findings.
NAMED: Mapping[str, Check] = {check.name: check for check in CHECKS}
#: Nothing is written to a service that breaks one of these rules: the lists would not show what a write hit.
BEFORE_WRITES = (3, 4, 6, 7, 8, 12)


def run(callers: Callers, options: Options) -> Iterator[Finding]:
    """Check a service; yield what each check says, in the order of :data:`CHECKS`."""
    subject = Subject(callers, options)
    failed: set[int] = set()
    for check in CHECKS:
        finding = _checked(check, subject, failed)
        if finding.verdict is Verdict.FAILED:
            failed.add(check.rule)
        yield finding


def _checked(check: Check, subject: Subject, failed: set[int]) -> Finding:
    """Return the finding of a check.

    :param failed: the rules that the service broke before
    """
    try:
        if check.writes:
            _may_write(subject, failed)
        return Finding(check.name, Verdict.OK, check.function(subject))
    except Broken as broken:
        return Finding(check.name, Verdict.FAILED, str(broken))
    except Unchecked as unchecked:
        return Finding(check.name, Verdict.NOT_CHECKED, str(unchecked))
    except Unreadable as unreadable:
        seen = f"correct rule {unreadable.rule} first: {unreadable}"
        return Finding(check.name, Verdict.NOT_CHECKED, seen)


def _may_write(subject: Subject, failed: set[int]) -> None:
    """Refuse a check that writes.

    :raises Unchecked: the caller does not allow it, or the service is not safe to write to
    """
    if not subject.options.delete:
        raise Unchecked("pass --delete to check it; everything in the project of --project is then deleted")
    if rules := sorted(failed.intersection(BEFORE_WRITES)):
        numbers = " and ".join(str(rule) for rule in rules)
        raise Unchecked(f"nothing is written before rule {numbers} is kept: the lists would not show what a write hit")
