"""What runs inside Keystone: the token fence, the hook in its pipeline, the WSGI entry.

It is imported by Keystone's processes: nothing here imports the engine's, the store's or the bus's code.
"""
