# SPDX-License-Identifier: Apache-2.0
# `forget` drops the page cache between laying out and measuring. Only root may: the runner does it, once, for the
# script of a job that lays out (`Job.lays_out`) and runs as a user of its own. POSIX sh.
forget() {
    sync
    if [ -n "${BENCHLAB_USER:-}" ]; then
        echo drop >&7
        read -r _ <&6 || {
            echo "the page cache was not dropped after the layout" >&2
            exit 1
        }
        exec 6<&- 7>&-
    elif [ -w /proc/sys/vm/drop_caches ]; then
        echo 3 >/proc/sys/vm/drop_caches
    fi
}
