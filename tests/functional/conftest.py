from tests.support.database_clock import database_clock
from tests.support.emulated_site import cloud
from tests.support.stores import store

__all__ = ["cloud", "database_clock", "store"]
