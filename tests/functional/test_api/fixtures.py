"""For the sentences in ``tests/functional/gabbits``: a new application, with a new store and Keystone, for each
file.
"""

import pathlib
import tempfile

from gabbi import fixture

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.transitions import By, move
from tests.functional.test_api.site import Site
from tests.support.stores import save

_site = None


def application():
    """The application of the file that runs now; gabbi asks for it before each request."""
    return lambda environ, start_response: _site.app(environ, start_response)


class Application(fixture.GabbiFixture):
    """Start and stop it."""

    extra = ""

    def start_fixture(self):
        global _site
        self._folder = tempfile.TemporaryDirectory()
        _site = Site(pathlib.Path(self._folder.name), extra=self.extra)

    def stop_fixture(self):
        global _site
        _site.close()
        _site = None
        self._folder.cleanup()


class BehindAProxy(Application):
    """It trusts the headers of the proxy, and a browser may call it from one origin."""

    extra = """
[oslo_middleware]
enable_proxy_headers_parsing = true
[cors]
allowed_origin = https://horizon.example.com
"""


class LongWaivers(Application):
    """A waiver may last for a hundred years, so that sentences can have dates."""

    extra = """
[catalog]
waiver_limit = 36500
"""


class Deleting(Application):
    """The cascade of one project is in its deletes, and that of another has only been accepted."""

    def start_fixture(self):
        super().start_fixture()
        made = _site.ask("p1", mode="cascade")
        before, _, now = _site.store.load(made["id"])
        for status in (Status.DRAINING, Status.INVENTORY, Status.DELETING):
            after = move(before, status, By.ENGINE, now, "test")
            before = save(_site.store, before, after)
        _site.ask("p2", mode="cascade")


class Unavailable(Application):
    """Keystone answers every call with an error."""

    def start_fixture(self):
        super().start_fixture()
        _site.keystone.broken = True
