# SPDX-License-Identifier: Apache-2.0
"""Upper bound of a disk's link bandwidth, by the rate that its bus negotiated. Pure.

The line rate of all its lanes without their encoding: a ceiling, for frames and their heads take more of it. Serial ATA
and SAS to 12 Gb/s: 8b/10b; SAS-4: 128b/150b. PCI Express: 8b/10b to 5 GT/s, 128b/130b to 32, 242 of 256 bytes beyond.
USB: none at 480 Mb/s, 8b/10b at 5 Gb/s, 128b/132b beyond.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SATA, SAS, USB = "/sata_spd", "/negotiated_linkrate", "/speed"
PCIE, LANES = "/current_link_speed", "/current_link_width"
# "6.0 Gbps", "12.0 Gbit", "8.0 GT/s PCIe"; of USB and of lanes a bare number
RATE = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)(?: G.*)?")


def link_bandwidth(sys: Mapping[str, str]) -> int:
    """B/s, of a disk's attributes below /sys/class/block; 0 where nothing tells it.

    Several phys of a SAS disk, and several paths to an NVMe namespace, carry together; of a port multiplier's links
    it is the fastest, through which all of them go.
    """
    sata = [_serial_bandwidth(rate) for rate in _rates_by_directory(sys, SATA).values()]
    sas = [_serial_bandwidth(rate) for rate in _rates_by_directory(sys, SAS).values()]
    lanes = _rates_by_directory(sys, LANES)
    pcie = [
        _lane_bandwidth(rate) * lanes.get(path, 0.0)
        for path, rate in _rates_by_directory(sys, PCIE).items()
    ]
    usb = [_usb_bandwidth(rate) for rate in _rates_by_directory(sys, USB).values()]
    return round(max(sata, default=0.0) or sum(sas) or sum(pcie) or sum(usb))


def _rates_by_directory(sys: Mapping[str, str], name: str) -> dict[str, float]:
    """Rates by the directory of their attribute. A value that is not a number is unknown."""
    matches = {path: RATE.fullmatch(value) for path, value in sys.items() if path.endswith(name)}
    return {path.removesuffix(name): float(rate[1]) for path, rate in matches.items() if rate}


def _serial_bandwidth(gigabits: float) -> float:
    return gigabits * 1e9 / 8 * (0.8 if gigabits <= 12 else 128 / 150)


def _lane_bandwidth(transfers: float) -> float:
    """Bandwidth (B/s) of a lane with `transfers` GT/s."""
    share = 0.8 if transfers <= 5 else 128 / 130 if transfers <= 32 else 242 / 256
    return transfers * 1e9 / 8 * share


def _usb_bandwidth(megabits: float) -> float:
    share = 1.0 if megabits <= 480 else 0.8 if megabits <= 5000 else 128 / 132
    return megabits * 1e6 / 8 * share
