"""Crusoe Cloud for Pulumi: the catalogue, rules, REST client, resources and the plugin; nothing of this platform."""
