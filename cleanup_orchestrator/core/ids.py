"""The form of the IDs of Keystone.

The rooms that import no other room have the same form: ``keystone.protocol``, ``protocol.checks`` and ``sdk.text``.
"""

from __future__ import annotations

import re

# Keystone makes letters, digits and hyphens. Rows that another tool wrote into its database can have underscores.
CHARACTERS = "[0-9A-Za-z_-]"
LONGEST = 64
_ID = re.compile(f"{CHARACTERS}{{1,{LONGEST}}}")


def is_id(text: str) -> bool:
    """Return whether a text has the form of a Keystone id.

    Any other text may change the path of a URL.
    """
    return _ID.fullmatch(text) is not None


def is_project_id(text: str) -> bool:
    """Return whether a text can be the id of a project.

    Zeros alone are no project: Designate's managed zones have such an owner.
    """
    return is_id(text) and text.strip("0-") != ""
