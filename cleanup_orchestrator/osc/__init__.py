"""The plugin of the ``openstack`` command line, and the client side of the REST API that it stands on."""
