"""The Pulumi plugin for Crusoe Cloud.

server.py is the process, service.py the protocol, kind.py the anatomy of every resource kind, and one module per family
holds the kinds. registry.py lists them.
"""
