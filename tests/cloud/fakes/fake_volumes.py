"""Fake volumes, also in consistency groups, which the fake of Cinder leaves in the state error."""

from cinder import exception
from cinder.tests.fake_driver import FakeGateDriver, FakeLoggingVolumeDriver


class Driver(FakeLoggingVolumeDriver):
    """Combines two fakes of Cinder: the one without requirements, and the groups of the one that needs LVM."""

    create_consistencygroup = FakeGateDriver.create_consistencygroup
    create_consistencygroup_from_src = FakeGateDriver.create_consistencygroup_from_src
    update_consistencygroup = FakeGateDriver.update_consistencygroup
    delete_consistencygroup = FakeGateDriver.delete_consistencygroup
    create_cgsnapshot = FakeGateDriver.create_cgsnapshot
    delete_cgsnapshot = FakeGateDriver.delete_cgsnapshot

    def _update_volume_stats(self):
        super()._update_volume_stats()
        self._stats["pools"][0]["consistencygroup_support"] = True

    def delete_volume(self, volume):
        """Fail for a volume with this metadata, as a storage that refuses the delete."""
        if (volume.metadata or {}).get("storage") == "refuses":
            raise exception.VolumeBackendAPIException(data="the storage refuses to delete it")
        return super().delete_volume(volume)
