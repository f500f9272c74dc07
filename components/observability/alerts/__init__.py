"""All alerts and what they record first, by what they are about."""

from components.observability.alerts import capacity, hardware, jobs, programs, repairs, silence
from components.observability.rules import Alert, Limits, Record


def all_rules(limits: Limits) -> list[Record | Alert]:
    """Every rule, those that record before those that use it."""
    return [
        *hardware.RECORDS,
        *hardware.alerts(),
        *repairs.alerts(limits),
        *jobs.alerts(limits),
        *capacity.alerts(limits),
        *programs.alerts(limits),
        *silence.alerts(),
    ]
