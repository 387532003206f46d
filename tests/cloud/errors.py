"""The exceptions that the cloud shows to people."""


class CloudError(Exception):
    """Something that the reader can do something about, said in one line."""


class Unauthorized(CloudError):
    """Keystone, or a service, answered 401."""


class Conflict(CloudError):
    """A service answered 409."""
