"""Checks a report without the cloud, the database or the configuration: only with the file and the public keys."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from cleanup_orchestrator.core import canonical, evidence, journal_chain
from cleanup_orchestrator.core.journal_chain import EMPTY, BrokenChain, Head
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.evidence import signing
from cleanup_orchestrator.evidence.signing import PublicKey

#: The types of the members of a line that are no text.
_NO_TEXT = {"sequence": int, "id": int, "data": dict, "withheld": bool}
_LINE = frozenset({*journal_chain.COVERED, "id", "digest", "withheld"}) - {"deletion_id"}
_NO_REPORT = "this is no report of a deletion, or not a whole one"


class ReportWrong(CleanupError):
    """A report is not as the orchestrator made it. The text is one line, and says what is wrong first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    """A report in which everything agrees."""

    report: Mapping[str, Any]
    signed: bool  #: whether it has a signature
    kid: str  #: the thumbprint of the trusted key that signed it; empty: the signature is none, or was not checked

    @property
    def proven(self) -> bool:
        """Whether the report proves that the deletion was done."""
        return self.report["proven"] is True


def parsed(text: bytes) -> Any:
    """Return the JSON of a file.

    :raises ReportWrong: it is no JSON, or two readers could read different values
    """
    try:
        return canonical.parsed(text)
    except (ValueError, RecursionError) as error:
        raise ReportWrong(f"this is no JSON that a report can have: {' '.join(str(error).split())[:200]}") from None


def verified(document: Any, keys: Mapping[str, PublicKey] | None) -> Verified:
    """Check a report: its signature, its journal, and that its facts and its verdict follow from the journal.

    :param document: the JSON of the file
    :param keys: the trusted keys by thumbprint; ``None``: the signature is not checked
    :raises ReportWrong: something does not agree
    """
    report, lines, signature = _parts(document)
    kid = _check_signature(report, signature, keys)
    try:
        _check_journal(report, lines)
        _check_conclusions(report, lines)
    except (KeyError, TypeError, AttributeError, canonical.NotCanonical):
        raise ReportWrong(_NO_REPORT) from None
    return Verified(report, signature is not None, kid)


def _parts(document: Any) -> tuple[dict[str, Any], list[dict[str, Any]], Any]:
    if not isinstance(document, dict) or document.keys() != {"journal", "report", "signature"}:
        raise ReportWrong(_NO_REPORT)
    report, lines = document["report"], document["journal"]
    if not isinstance(report, dict) or not isinstance(lines, list):
        raise ReportWrong(_NO_REPORT)
    if report.get("format") != evidence.FORMAT:
        raise ReportWrong(f"the form of the report is not {evidence.FORMAT}: check it with the release that made it")
    return report, lines, document["signature"]


def _check_signature(report: Mapping[str, Any], signature: Any, keys: Mapping[str, PublicKey] | None) -> str:
    """Return the thumbprint of the key; empty: there is no signature, or no key to check it with."""
    if (signature is None) != (report.get("key") == ""):
        raise ReportWrong("the signature was removed or added: the report says something else about it")
    if signature is None or keys is None:
        return ""
    try:
        kid = signing.check(canonical.encoded(report), signature, keys)
    except (signing.SignatureWrong, canonical.NotCanonical) as error:
        raise ReportWrong(str(error)) from None
    if kid != report["key"]:
        raise ReportWrong("the report names another key than its signature")
    return kid


def _check_journal(report: Mapping[str, Any], lines: Sequence[Any]) -> None:
    """Check that the lines lead to the head that the report has, and are those that it had.

    :raises ReportWrong: they do not; the text names the first wrong line
    """
    head, shown, withheld, deletion_id = EMPTY, hashlib.sha256(), 0, report["deletion"]["id"]
    for number, line in enumerate(lines, 1):
        _check_form(number, line)
        withheld += line["withheld"]
        try:
            head = _passed(head, line) if line["withheld"] else _checked(head, line, deletion_id)
        except BrokenChain as error:
            raise ReportWrong(str(error)) from None
        shown.update(canonical.encoded(line) + b"\n")
    said = report["journal"]
    if head.to_dict() != {name: said[name] for name in ("length", "digest")}:
        raise ReportWrong(f"the journal ends after line {head.length}, and its head stands for {said['length']} others")
    if (withheld, shown.hexdigest()) != (said["withheld"], said["shown"]):
        raise ReportWrong("a line of which the reader may not see all, or its number, was changed")


def _check_form(number: int, line: Any) -> None:
    wrong = not isinstance(line, dict) or line.keys() != _LINE
    if wrong or any(type(line[name]) is not _NO_TEXT.get(name, str) for name in _LINE):
        raise ReportWrong(f"line {number} of the journal: it is no line of a report")


def _checked(head: Head, line: Mapping[str, Any], deletion_id: str) -> Head:
    return journal_chain.checked(head, {**line, "deletion_id": deletion_id})


def _passed(head: Head, line: Mapping[str, Any]) -> Head:
    """Return the head after a line whose content is not all there: only its place is checked."""
    if line["sequence"] != head.length + 1:
        raise BrokenChain(head.length + 1, f"it is missing, and line {line['sequence']} stands in its place")
    return Head(head.length + 1, line["digest"])


def _check_conclusions(report: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    """Check the facts and the verdict against the lines."""
    facts = evidence.Facts()
    for line in lines:
        facts.add(line)
    computed, said = facts.to_dict(), report["facts"]
    for name, value in computed.items():
        if said.get(name) != value:
            raise ReportWrong(f"the report and its journal disagree about {name!r}")
    if said.keys() != computed.keys():
        raise ReportWrong(_NO_REPORT)
    verdict = evidence.verdict(computed, report["journal"]["problem"], report["deletion"]["status"])
    if (report["proven"], report["verdict"]) != (verdict.proven, verdict.text):
        raise ReportWrong("the verdict of the report does not follow from its journal")
