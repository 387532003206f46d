"""What the orchestrator and its part inside Keystone agree on. It imports nothing: both sides import it."""

from __future__ import annotations

#: Group in ``keystone.conf``.
GROUP = "project_cleanup"

#: The project option (as ``immutable`` is one) whose presence is the fence; its value is the deletion's id. A Keystone
#: without our part refuses it with 400.
FENCE_OPTION = "cleanup_fence"
#: Its key in Keystone's table ``project_option``: four characters, never to be changed.
FENCE_OPTION_ID = "CLFN"
#: Seconds after which a fence that was set is in effect in every process: more than ``fence.MAX_AGE``.
FENCE_MAX_AGE = 1.0

#: On ``GET /v3/auth/tokens``, with a deletion's id: where the project has this deletion's fence, treat the token as
#: anybody's, although it is the orchestrator's own. It can only make the answer stricter, so anybody may send it. That
#: is how the driver sees that its fence holds in the process that answers.
CANARY_HEADER = "X-Project-Cleanup-Canary"

#: On the orchestrator's own ``DELETE /v3/projects/{id}``, with the deletion's id: go through the pipeline's hook.
FINAL_HEADER = "X-Project-Cleanup-Final"

#: What a user says where the hook is opt-in: the header's value is the mode, ``report`` or ``cascade``; so is the
#: query parameter's.
MODE_HEADER = "X-Project-Cleanup"
MODE_QUERY = "cleanup"
