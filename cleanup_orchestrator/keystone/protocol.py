"""Names that the orchestrator and its code inside Keystone share.

Both sides import this module. It imports nothing.
"""

from __future__ import annotations

#: Group in ``keystone.conf``.
GROUP = "project_cleanup"

#: The project option that is the fence; its value is the id of the deletion. A Keystone without the fence refuses it
#: with 400. Only the orchestrator's user sets it. An admin may lift it.
FENCE_OPTION = "cleanup_fence"
#: The user, besides the orchestrator's, that the fence does not stop: the janitor of the deletion. Only the
#: orchestrator's user sets it.
JANITOR_OPTION = "cleanup_janitor"
#: A number that grows with each change of the fence, also if the fence is lifted. So a fence that was lifted and set
#: again is another fence. Keystone sets it.
SERIAL_OPTION = "cleanup_fence_serial"
#: Id of the user who made the latest change of the fence. Keystone sets it.
CHANGED_BY_OPTION = "cleanup_fence_changed_by"
#: The keys of these options in Keystone's table ``project_option``: four characters. They must never change.
OPTION_IDS = {FENCE_OPTION: "CLFN", JANITOR_OPTION: "CLJN", SERIAL_OPTION: "CLFS", CHANGED_BY_OPTION: "CLFB"}
FENCE_OPTION_ID, JANITOR_OPTION_ID = OPTION_IDS[FENCE_OPTION], OPTION_IDS[JANITOR_OPTION]
#: Seconds after which a new fence is in effect in every process: more than ``fence.MAX_AGE``.
FENCE_MAX_AGE = 1.0

#: Header of ``GET`` and ``POST /v3/auth/tokens`` with the id of a deletion: if the project has the fence of this
#: deletion, refuse the token even of an exempt user. So the drain driver checks that the fence is in effect in the
#: answering process. The header can only make the answer stricter, so any client may send it.
CANARY_HEADER = "X-Project-Cleanup-Canary"

#: Header of the 404 or the 401 to such a request, with the same id: only the canary made the answer a refusal.
#: A Keystone with an older release of this package does not send it.
FENCED_HEADER = "X-Project-Cleanup-Fenced"

#: Header of the orchestrator's ``DELETE /v3/projects/{id}`` with the id of the deletion: passes the hook.
FINAL_HEADER = "X-Project-Cleanup-Final"

#: Header of the same request with the serial of the fence. Keystone deletes the project only if it has this fence, with
#: this serial.
SERIAL_HEADER = "X-Project-Cleanup-Serial"

#: Header and query parameter with which a client names the mode, ``report`` or ``cascade``.
MODE_HEADER = "X-Project-Cleanup"
MODE_QUERY = "cleanup"

#: Path, below ``/v3``, of the lists by project that this package adds to Keystone; see ``keystone.delegations``.
DELEGATIONS_PATH = "/OS-PROJECT-CLEANUP"

#: The form of an id, as a regular expression for the whole text. Any other text may change the path of a URL.
ID_PATTERN = "[0-9A-Za-z_-]{1,64}"
