"""The errors for a wrong command line, and the exit codes of errors."""

from __future__ import annotations

from osc_lib import exceptions

from cleanup_orchestrator.sdk import ApiError


class UsageError(exceptions.CommandError):
    """The command line is wrong."""


#: The exit code for a wrong command line, also that of argparse.
USAGE = 2

#: Codes of the API for values that it refuses before it does anything.
_REFUSED_VALUES = frozenset({"invalid_query", "invalid_body", "not_in_catalog"})


def exit_code(exc: BaseException) -> int:
    """Return the exit code for an error."""
    refused = isinstance(exc, ApiError) and exc.code in _REFUSED_VALUES
    return USAGE if refused or isinstance(exc, UsageError) else 1
