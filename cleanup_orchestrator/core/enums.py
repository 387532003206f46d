"""The base class of closed sets of words. Pure."""

import enum


class StrEnum(str, enum.Enum):
    """An enumeration whose members are their text, like ``enum.StrEnum``, which Python 3.9 and 3.10 do not have."""

    __str__ = str.__str__
