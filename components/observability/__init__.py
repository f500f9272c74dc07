"""Monitoring as code: what is scraped, recorded, alerted on, told to whom, and shown."""
