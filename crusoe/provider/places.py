"""Where things lie: the location that kinds share, checked against those that the API knows.

A location can't be changed in place, so the object of the old one is deleted before the new one is asked for. A
misspelt one has to be found before that.
"""

from __future__ import annotations

from crusoe.provider.properties import Effect, Property
from crusoe.provider.session import Session
from crusoe.provider.shapes import Failure, Text, did_you_mean
from crusoe.provider.values import Values

LOCATION = Property("location", Text(), "Location, such as us-east1-a.", required=True, effect=Effect.REPLACE)


def location_faults(session: Session, olds: Values, news: Values) -> list[Failure]:
    """Return what is wrong with a new or changed location; nothing where the API does not list any."""
    location = news.get("location")
    if not isinstance(location, str) or olds.get("location") == location:
        return []
    known = session.locations()
    if not known or location in known:
        return []
    hint = did_you_mean(location, known)
    return [Failure("location", f"{location} is not a location of Crusoe.{hint} Known are {', '.join(known)}.")]
