"""The code that runs inside Keystone: token fence, pipeline hook, WSGI entry.

Keystone's processes import it. Therefore it imports no other room of this package.
"""
