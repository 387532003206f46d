"""A small real cloud on loopback, for the demo and for the tests.

``launcher`` starts the released Keystone, Glance, Neutron, Swift and Barbican without other servers. ``filler`` fills a
project with one resource of each of their types. ``proof`` checks afterwards whether anything is left.
"""
