"""The accounting's daemon: slurmdbd.conf as a pure function."""

_RECORDS = ("Event", "Job", "Resv", "Step", "Suspend", "TXN", "Usage")


def slurmdbd_conf(keep_months: int) -> str:
    """Lines that follow those of Slinky's operator: how long each kind of record is kept, and who sees whose."""
    lines = [f"Purge{record}After={keep_months}month" for record in _RECORDS]
    # A month's worth of deletions at once would hold up the end of jobs.
    return "\n".join([*lines, "MaxQueryTimeRange=60-0", "TrackSlurmctldDown=yes", ""])
