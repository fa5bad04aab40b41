"""Negative controls: right implementations about which the judge must stay quiet, those of public reports first."""

from relpos.conformance.faults.api import Control
from relpos.conformance.faults.controls_attention import ATTENTION
from relpos.conformance.faults.controls_positions import POSITIONS
from relpos.conformance.faults.controls_reported import REPORTED

CONTROLS: tuple[Control, ...] = (*REPORTED, *ATTENTION, *POSITIONS)
