from tests.functional.test_rate_limiter import start

__all__ = ["start"]
