"""The circuit breaker of one slot: one transition table, total over phase and event.

Laws
----
* CLOSED lets requests through at the slot's pace.
* OPEN lets nothing through until the wait is over *and* all that was in flight is back:
  requests already past the limiter must not be mistaken for answers to the pause.
* HALF_OPEN lets exactly one request out, the probe.
* Only the probe's acceptance closes the breaker, or that there is nobody to wait for.

**Source**: M. Nygard, Release It!, 2nd ed., section 5.2, for the three phases.
**Departs**: OPEN also waits for what is in flight, and HALF_OPEN counts one probe, not a rate.
"""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """State of a circuit breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Signal(Enum):
    """What can happen to a circuit breaker."""

    REFUSAL = "refusal"
    """A refusal arrived, or a failure that counts as one."""
    CLEAR = "wait over, none in flight"
    PROBE_ACCEPTED = "probe accepted"
    GONE = "host gone"
    """The host fails every probe: nothing is gained by waiting for it."""


TABLE: dict[tuple[Phase, Signal], Phase] = {
    (Phase.CLOSED, Signal.REFUSAL): Phase.OPEN,
    (Phase.CLOSED, Signal.CLEAR): Phase.CLOSED,
    (Phase.CLOSED, Signal.PROBE_ACCEPTED): Phase.CLOSED,
    (Phase.CLOSED, Signal.GONE): Phase.CLOSED,
    (Phase.OPEN, Signal.REFUSAL): Phase.OPEN,
    (Phase.OPEN, Signal.CLEAR): Phase.HALF_OPEN,
    (Phase.OPEN, Signal.PROBE_ACCEPTED): Phase.OPEN,
    (Phase.OPEN, Signal.GONE): Phase.CLOSED,
    (Phase.HALF_OPEN, Signal.REFUSAL): Phase.OPEN,
    (Phase.HALF_OPEN, Signal.CLEAR): Phase.HALF_OPEN,
    (Phase.HALF_OPEN, Signal.PROBE_ACCEPTED): Phase.CLOSED,
    (Phase.HALF_OPEN, Signal.GONE): Phase.CLOSED,
}
"""The whole breaker. The diagram in the documentation is drawn from this table."""
