# SPDX-License-Identifier: Apache-2.0
"""IOmeter's dynamo, driven without IOmeter: its wire protocol, one session with it, and what it measured.

Modules named in bundle.HOSTSIDE also run on the host, as one file, under Python 3.6 or later and nothing else: they
import only each other and the standard library, and are written without what 3.6 has not (dataclasses, `X | None`
at run time, the walrus, `from __future__ import annotations`).

    wire, messages, results          bytes to typed messages and back
    specs                            what is to be measured, and every rule it must keep
    console, script                  one dynamo's session: a state machine without socket or clock, and what it does
    transcript                       all messages of a session as one file: the artifact
    account, calibrate               which results they hold, and how fast the clock ticked
    figures, summary                 what they mean in seconds, bytes and operations
    hostfacts, process, driver       the program on the host: files, dynamo itself, sockets
    bundle                           makes that program of the modules above
    icf, results_csv                 IOmeter's own files
"""
