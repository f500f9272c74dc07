"""What runs inside a cluster's namespaces: scripts on Python's own library, each the first process of a namespace.

They are started by path with `python -I -S`, import nothing of this project but each other, and go on when the local
cloud is killed.
"""
