"""Backups that go through every state of Cinder's, and copy nothing: there is no volume to read from."""

import os
import tempfile

from cinder.backup import driver, manager
from cinder.volume import volume_utils

# Which initiators this host has is found out with the help of sudo.
volume_utils.brick_get_connector_properties = lambda *arguments, **options: {"host": "cloudhost", "ip": "127.0.0.1"}


class Manager(manager.BackupManager):
    """Cinder's own, which finds each volume attached as an empty file."""

    def _attach_device(self, ctxt, backup_device, properties, is_snapshot=False):
        number, path = tempfile.mkstemp(prefix="volume-")
        os.close(number)
        return {"device": {"path": path}}

    def _detach_device(self, ctxt, attach_info, *arguments, **options):
        os.unlink(attach_info["device"]["path"])


class Driver(driver.BackupDriver):
    """Keeps nothing."""

    def __init__(self, context):
        super().__init__(context)

    def backup(self, backup, volume_file, backup_metadata=False):
        return None

    def restore(self, backup, volume_id, volume_file, volume_is_new):
        return None

    def delete_backup(self, backup):
        return None
