"""Rules about Crusoe resources: pure functions from plain values to findings, one module per topic.

Each rule is written once. Settings call it to refuse early and with every fault at once, policies call it on any
program's resources. A rule never raises: a value of another type than it expects is the settings model's business, so
the rule passes it over.
"""
