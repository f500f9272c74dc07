"""Exit codes of the trainer and of the batch script."""

DONE = 0
"""All steps are done and saved; also when there was nothing left to do."""

REFUSED = 64
"""The options don't fit what is in the run folder; a sentence says how. No use in another try."""

STOPPED = 65
"""Told to end before the last step, and saved."""

STUCK = 66
"""Told to end, and the step could not be finished in time: nothing was saved."""

GAVE_UP = 67
"""The batch script's: three crashes without a newer checkpoint."""
