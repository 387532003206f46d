from tests.support.database_clock import database_clock
from tests.support.emulated_site import emulated
from tests.support.stores import store

__all__ = ["database_clock", "emulated", "store"]
