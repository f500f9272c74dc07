"""Kills at random moments, again and again: whatever dies, the next run finishes, and nothing is lost or left."""
