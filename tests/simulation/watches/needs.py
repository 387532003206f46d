"""Order: nothing that a server of the project uses is deleted while the server is there."""

from __future__ import annotations

from tests.simulation.cloud import SERVER, Thing
from tests.simulation.watches.base import Watch
from tests.support.scheduler import Thread


class Needs(Watch):
    """What holds of ports and volumes that a server uses, also where the server cannot be deleted."""

    def write(self, thread: Thread, label: str, what: str, thing: Thing | None) -> None:
        held = thread.held
        if thing is None or not thing.device or held is None or what.endswith((" stop", " start")):
            return
        for server in self.cloud.there(thing.region, SERVER):
            if server.id == thing.device and not self._given_up(server, held.owner_id):
                self.promises.fail(f"{label}: {server.id} uses it, and is still there")

    def _given_up(self, server: Thing, deletion_id: str) -> bool:
        """Return whether the deletion does not have to spare what a server uses.

        It abandoned the server, the server is not the project's, or it was created after the latest listing.
        """
        project_id = self.promises.project[deletion_id]
        project = self.keystone.projects.get(project_id)
        unlisted = project is not None and server.born >= project.listed_at[server.region, SERVER]
        return server.owner != project_id or unlisted or self.promises.proofs.abandons(server, deletion_id)
