# SPDX-License-Identifier: Apache-2.0
"""An example of every request body, for the OpenAPI schema. Ids are those of a made-up installation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchlab.campaigns import workload_presets

_WORKLOAD = next(preset for preset in workload_presets.ALL_PRESETS if preset.sweep)
# Method and path -> a body. One of a multipart form names its files.
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "post /api/campaigns/": {
        "name": "How deep?",
        "question": "From which depth on does the array gain nothing?",
        "hosts": [1],
        "topologies": [1, 2],
        "workloads": [1],
        "repeats": 3,
        "order": "abba",
        "visits": 2,
    },
    "patch /api/campaigns/{id}/": {"name": "How deep, again?", "was": "How deep?"},
    "post /api/campaigns/{id}/add-repeats/": {"runs": [17, 23], "repeats": 2, "after": 3},
    "post /api/campaigns/{id}/apply/": {"confirmed": {"4": "0b5c9a7e", "5": "c1d2e3f4"}},
    "post /api/comments/": {"kind": "run", "object_id": 17, "text": "The fan was broken here."},
    "patch /api/comments/{id}/": {"text": "The fan was broken until noon."},
    "post /api/credentials/": {"name": "lab"},
    "patch /api/devices/{id}/": {"rated_iops": 5000, "rated_bandwidth": 200_000_000},
    "post /api/devices/{id}/mark-spare/": {"typed": "S3YJNB0K", "role": "ssd"},
    "post /api/dynamo-checks/": {"host": 1, "path": "/usr/local/bin/dynamo"},
    "post /api/dynamo-programs/": {"program": "dynamo-1.1.0"},
    "post /api/findings/{id}/dismiss/": {"note": "The cache is what we measure."},
    "post /api/findings/{id}/take-back/": {"note": "It does matter after all."},
    "post /api/hosts/": {"name": "vm-09", "address": "192.0.2.9", "user": "root", "credential": 1},
    "patch /api/hosts/{id}/": {"address": "192.0.2.10", "notes": "Moved to rack 4"},
    "post /api/hosts/{id}/accept-dynamo/": {"port": 60102, "same_machine": True},
    "post /api/hosts/{id}/confirm-key/": {
        "fingerprint": "SHA256:uNiVztksCsDhcc0u9e8BrJQXVUpKZIDTMczCvj3tD2s"
    },
    "post /api/hosts/{id}/install-packages/": {
        "packages": ["xfsprogs"],
        "command": "apt-get install -y xfsprogs",
    },
    "post /api/icf-files/": {"text": "Version 1.1.0\n", "take": []},
    "post /api/diagnose/": {"text": "iops = 4967 op/s"},
    "post /api/diagnose/ multipart/form-data": {"file": "fio.json"},
    "post /api/imports/": {"text": "iops = 4967 op/s", "name": "notes.txt"},
    "post /api/imports/ multipart/form-data": {"files": ["fio.json"]},
    "post /api/imports/{id}/agree/": {
        "campaign": "Before the upgrade",
        "origin": {"url": "https://example.org/results"},
        "results": [{"file": 1, "first": 2, "new_host": "db1", "new_topology": "raid5"}],
    },
    "post /api/invitations/": {"team": 1, "role": "operator", "email": "bob@example.org"},
    "post /api/layouts/{id}/person-done/": {"key": "2f6c"},
    "post /api/layouts/{id}/release/": {"typed": "release vm-09"},
    "post /api/layouts/{id}/teardown/": {"snapshot": 12},
    "patch /api/memberships/{id}/": {"role": "viewer"},
    "post /api/notes/": {"kind": "campaign", "object_id": 1, "text": "For the report of May."},
    "post /api/reported-targets/{id}/mark-spare/": {"typed": "PHYSICALDRIVE:1"},
    "post /api/shares/": {"kind": "campaign", "object_id": 1, "days": 30, "hide_hosts": True},
    "post /api/stars/": {"kind": "campaign", "object_id": 1, "starred": True},
    "post /api/taggings/": {"kind": "campaign", "object_id": 1, "tag": "kernel 6.1"},
    "post /api/teams/": {"name": "Storage lab"},
    "patch /api/teams/{id}/": {"keep_raw_days": 365},
    "post /api/topologies/": {
        "name": "xfs on a stripe of two",
        "stack": [
            {
                "kind": "lvm",
                "options": {"type": "striped"},
                "devices": [{"use": "data", "role": "hdd", "count": 2}],
            },
            {"kind": "filesystem", "options": {"type": "xfs"}},
        ],
    },
    "patch /api/topologies/{id}/": {"description": "As the database hosts have it"},
    "post /api/topologies/{id}/plan/": {"host": 1},
    "post /api/verdicts/{id}/dismiss/": {"answer": "faster:raid5", "note": "Another firmware."},
    "post /api/verdicts/{id}/take-back/": {"answer": "faster:raid5", "note": "The same firmware."},
    "post /api/views/": {"name": "Caches", "query": "campaign=1&campaign=2", "for_team": True},
    "post /api/workloads/": {
        name: getattr(_WORKLOAD, name) for name in ("name", "tool", "options", "sweep")
    },
    "patch /api/workloads/{id}/": {"name": "Curve", "was": _WORKLOAD.name},
}


def add_body_examples(result: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A postprocessing hook: each request body with its example. A test holds that none is without one."""
    for path, methods in result["paths"].items():
        for method, operation in methods.items():
            for kind, body in operation.get("requestBody", {}).get("content", {}).items():
                name = f"{method} {path}"
                example = EXAMPLES.get(f"{name} {kind}", EXAMPLES.get(name))
                if example is not None:
                    body["example"] = example
    return result
