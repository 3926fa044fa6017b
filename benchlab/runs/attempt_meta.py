# SPDX-License-Identifier: Apache-2.0
"""Keys in the meta of an attempt beside what its runner recorded."""

# Of one that was measured elsewhere: [[artifact, kind in agents/readers/, name of its file], …];
# of one point of a sweep the labels that tell it apart come behind: {"outstanding": "4"}
READERS = "readers"
# Likewise, where the source names them: {role: kernel names of the disks that had it, in order}
DISKS = "disks"
# Likewise what they are rated for: {role: {"iops": op/s, "bandwidth": B/s}}, either of them
RATED = "rated"
# Of one whose samples cannot all be read: {sampler, or "samples" where it is all of them: why}
NOT_SAMPLED = "not_sampled"
# Of one whose output was too large to be fetched: in words, what stays where on its host
ON_HOST = "on_host"
# Of one whose spool directory is gone from its host, with all that could run in it
REMOVED = "removed"
