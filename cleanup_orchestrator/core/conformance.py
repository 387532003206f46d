"""What a conformance test says about a plugin, or about a service that speaks the project resources protocol."""

from __future__ import annotations

import dataclasses
from enum import StrEnum


class Verdict(StrEnum):
    """What a rule says."""

    OK = "ok"
    WARNING = "warning"  #: it works, and should be changed
    FAILED = "FAILED"
    NOT_CHECKED = "not checked"  #: the rule does not apply, or what it needs is not there


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What one rule says."""

    rule: str  #: id of the rule
    verdict: Verdict
    text: str  #: what was seen, and what to do if the rule failed or could not be checked
    #: The service type of a plugin, or the full name of a resource type: ``network.port``. Empty: there is one subject.
    subject: str = ""
