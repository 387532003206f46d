"""The exceptions that the cloud shows to people."""


class CloudError(Exception):
    """An error that the user can fix; the message is one line."""


class Unauthorized(CloudError):
    """Keystone, or a service, answered 401."""


class Conflict(CloudError):
    """A service answered 409."""
