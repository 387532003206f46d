"""Backups that go through every state of Cinder and copy no data, because the volumes have none."""

import os
import tempfile

from cinder.backup import driver, manager
from cinder.volume import volume_utils

# Cinder would use sudo to read the initiators of this host.
volume_utils.brick_get_connector_properties = lambda *arguments, **options: {"host": "cloudhost", "ip": "127.0.0.1"}


class Manager(manager.BackupManager):
    """The backup manager of Cinder, for which each attached volume is an empty file."""

    def _attach_device(self, ctxt, backup_device, properties, is_snapshot=False):
        number, path = tempfile.mkstemp(prefix="volume-")
        os.close(number)
        return {"device": {"path": path}}

    def _detach_device(self, ctxt, attach_info, *arguments, **options):
        os.unlink(attach_info["device"]["path"])


class Driver(driver.BackupDriver):
    """Stores no data."""

    def __init__(self, context):
        super().__init__(context)

    def backup(self, backup, volume_file, backup_metadata=False):
        return None

    def restore(self, backup, volume_id, volume_file, volume_is_new):
        return None

    def delete_backup(self, backup):
        return None
