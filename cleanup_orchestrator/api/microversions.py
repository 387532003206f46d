"""The microversions of the API, as the API guidelines of OpenStack define them.

Each change of the API that a client can notice adds a microversion: an entry of ``VERSIONS`` with what changed, a
section of the guide, and a release note. A handler asks ``request.environ[VERSION]`` which version the client wants.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import microversion_parse
import webob

from cleanup_orchestrator.api.errors import ApiError

SERVICE_TYPE = "project-cleanup"
HEADER = "OpenStack-API-Version"
#: The key of the WSGI environment with the version that the client wants.
VERSION = "project-cleanup.microversion"

#: Every microversion with what it changed, from the earliest to the latest.
VERSIONS = {
    "1.0": "The first version.",
}
MIN, MAX = next(iter(VERSIONS)), list(VERSIONS)[-1]


def wanted(request: webob.Request) -> microversion_parse.Version:
    """Return the version that a request asks for; without the header, the earliest.

    Versions of other services in the header are ignored. A part that names no service is refused: the client would not
    notice that it gets the earliest version.

    :raises ApiError: 400 invalid_version; 406 version_not_supported
    """
    parts = request.headers.get(HEADER, "").split(",")
    try:
        if any(len(part.split()) == 1 for part in parts):
            raise TypeError("a part without a service")
        return microversion_parse.extract_version(request.headers, SERVICE_TYPE, list(VERSIONS))
    except TypeError:
        text = f"the version in {HEADER} is malformed: send '{SERVICE_TYPE} {MAX}' or '{SERVICE_TYPE} latest'"
        raise ApiError(400, "invalid_version", text) from None
    except ValueError:
        text = f"this API does not support the version in {HEADER}: it supports {MIN} to {MAX}"
        raise ApiError(406, "version_not_supported", text, min_version=MIN, max_version=MAX) from None


class Versioned:
    """WSGI middleware: refuses versions that the API does not have.

    The versions document has no microversion: with it, clients find out which versions they can ask for.
    """

    def __init__(self, application: Any, is_public: Callable[[str], bool]) -> None:
        """Take the application.

        :param is_public: returns whether a path answers the same for each version
        """
        self._application, self._is_public = application, is_public

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer one request.

        :raises ApiError: 400 invalid_version; 406 version_not_supported
        """
        if not self._is_public(environ.get("PATH_INFO", "")):
            environ[VERSION] = wanted(webob.Request(environ))
        return self._application(environ, start_response)


def announce(request: webob.Request, response: webob.Response) -> None:
    """Set the header that says which version the answer has."""
    response.headers[HEADER] = f"{SERVICE_TYPE} {request.environ.get(VERSION, MIN)}"


def release() -> str:
    """Return the release of the package, for people."""
    try:
        return importlib.metadata.version("cleanup-orchestrator")
    except importlib.metadata.PackageNotFoundError:
        return "of a checkout"
