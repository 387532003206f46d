"""A small real cloud on loopback, for the demo and for the tests.

``launcher`` starts the released Keystone, Glance, Neutron, Swift and Barbican without any server beside them;
``filler`` fills a project with one of everything they can hold; ``proof`` looks afterwards whether anything is left.
"""
