import pytest

from tests.functional.test_api.keystone import Keystone
from tests.functional.test_api.site import Site


@pytest.fixture(scope="module")
def keystone():
    keystone = Keystone()
    yield keystone
    keystone.close()


@pytest.fixture
def site(tmp_path, keystone):
    """The application over SQLite; Keystone is shared, so a test must not change it permanently."""
    site = Site(tmp_path, keystone=keystone)
    yield site
    site.close()
    keystone.broken = False


@pytest.fixture
def any_site(tmp_path, keystone, database_url):
    """The application over each kind of database."""
    site = Site(tmp_path, database_url, keystone)
    yield site
    site.close()
