from tests.databases import database_url

__all__ = ["database_url"]
