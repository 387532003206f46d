"""Plugin liens: nothing is deleted while the inventory has shown a reason for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.transitions import LIVE
from tests.simulation.watches.base import Watch

if TYPE_CHECKING:
    from tests.simulation.promises import Promises

#: Liens of plugins on a project.
_REMOVED = "SELECT 1 FROM liens WHERE project_id = ? AND origin = ? AND deleted_by NOT IN ('', 'plugin')"
_IN_FORCE = "SELECT project_id FROM liens WHERE origin LIKE 'plugin:%' AND deleted_at IS NULL"


class PluginLiens(Watch):
    """What holds where ``[protection] lien_types`` is set."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._round: dict[str, int] = {}  #: number of the effect at which the present round was opened

    def told(self, deletion_id: str, type_: str) -> None:
        if type_ == "round.opened":
            self._round[deletion_id] = self.simulation.effects

    def moved(self, deletion_id: str, before: str, after: Status) -> None:
        if not self.plan.lien_types or (before, after) != (Status.INVENTORY, Status.DELETING):
            return
        project_id, opened = self.promises.project[deletion_id], self._round.get(deletion_id, 0)
        project = self.keystone.projects.get(project_id)
        if project is None or not project.exists:
            return
        for region, name in self.cloud.things:
            if name not in self.plan.lien_types:
                continue
            if project.listed_at[region, name] < opened:
                self.promises.fail(f"it deletes, and {name}@{region}, which may raise a lien, was not listed")
            if self.promises.one(_REMOVED, project_id, f"plugin:{name}"):
                continue
            mine = self.cloud.mine(region, name, project_id)
            used = [t.id for t in mine if t.used_since is not None and t.used_since < opened]
            if used:
                self.promises.fail(f"it deletes, and others use {', '.join(used)}: no lien holds it")

    def at_the_end(self) -> None:
        live = {self.promises.project[id_] for id_, status in self.promises.status.items() if status in LIVE}
        left = {row[0] for row in self.promises.database.raw.execute(_IN_FORCE)} - live
        if left:
            self.promises.fail(f"a plugin's lien outlives the deletion that it is about: {', '.join(sorted(left))}")
