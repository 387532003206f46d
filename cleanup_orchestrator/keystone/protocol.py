"""Names that the orchestrator and its code inside Keystone share.

Both sides import this module. It imports nothing.
"""

from __future__ import annotations

#: Group in ``keystone.conf``.
GROUP = "project_cleanup"

#: The project option that is the fence; its value is the id of the deletion. A Keystone without the fence refuses it
#: with 400.
FENCE_OPTION = "cleanup_fence"
#: Its key in Keystone's table ``project_option``: four characters. It must never change.
FENCE_OPTION_ID = "CLFN"
#: Seconds after which a new fence is in effect in every process: more than ``fence.MAX_AGE``.
FENCE_MAX_AGE = 1.0

#: Header of ``GET /v3/auth/tokens`` with the id of a deletion: if the project has the fence of this deletion, refuse
#: the token even of an exempt user. So the drain driver checks that the fence is in effect in the answering process.
#: The header can only make the answer stricter, so any client may send it.
CANARY_HEADER = "X-Project-Cleanup-Canary"

#: Header of the 404 to such a request, with the same id: the token is valid, and only the canary made the answer a 404.
#: A Keystone with an older release of this package does not send it.
FENCED_HEADER = "X-Project-Cleanup-Fenced"

#: Header of the orchestrator's ``DELETE /v3/projects/{id}`` with the id of the deletion: passes the hook.
FINAL_HEADER = "X-Project-Cleanup-Final"

#: Header and query parameter with which a client names the mode, ``report`` or ``cascade``.
MODE_HEADER = "X-Project-Cleanup"
MODE_QUERY = "cleanup"
