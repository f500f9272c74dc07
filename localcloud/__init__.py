"""A Crusoe Cloud on this machine: the REST API, CMK clusters with fake GPU nodes, and faults on demand.

Written from the facts of the API alone; imports nothing of the platform or of its client, so that a mistake on either
side shows. Where the service's behaviour isn't known, the stricter reading is taken (`STRICT_READINGS.md` lists them).
"""
