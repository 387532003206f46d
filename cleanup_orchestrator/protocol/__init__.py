"""The project resources protocol: a service answers for itself what a project owns in it.

The manual has the protocol (``doc/source/protocol``).
"""
