# SPDX-License-Identifier: Apache-2.0
# How the scripts that describe a host print: in sections that agents/facts/sections.py takes apart.
# Sent in front of facts.sh and facts_freebsd.sh. POSIX sh.
# A section is: "=NONCE begin NAME", output, "=NONCE end EXIT", standard error, "=NONCE done".
nonce=$1
shift
LC_ALL=C PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
# libblkid reads a MiB of each disk into fresh memory; memory that is kept is paged in once, not once a disk.
MALLOC_MMAP_THRESHOLD_=67108864 MALLOC_TRIM_THRESHOLD_=67108864
export LC_ALL PATH MALLOC_MMAP_THRESHOLD_ MALLOC_TRIM_THRESHOLD_
exec 3>&1

section() { # NAME COMMAND ARG...
    printf '=%s begin %s\n' "$nonce" "$1"
    shift
    err=$("$@" 2>&1 >&3 </dev/null)
    code=$?
    printf '\n=%s end %s\n%s\n=%s done\n' "$nonce" "$code" "$err" "$nonce"
}
note() { # NAME TEXT...: a section without a command, and without a fork
    printf '=%s begin %s\n' "$nonce" "$1"
    shift
    printf '%s\n' "$@"
    printf '\n=%s end 0\n\n=%s done\n' "$nonce" "$nonce"
}
there() { command -v "$1" >/dev/null 2>&1; }
versions() { # "PROGRAM ARG...", "NAME=PROGRAM ARG..." or "/PATTERN ARG..."...
    set -f
    for program; do
        case $program in
            /*)
                set +f # several may be installed: each says its own version
                for found in ${program%% *}; do
                    [ -x "$found" ] && may_run "$found" || continue
                    # shellcheck disable=SC2086  # the words of one version command
                    section "version $found" "$real" ${program#* }
                done
                set -f
                continue
                ;;
        esac
        title=version
        case ${program%% *} in *=*) title="answer ${program%%=*}" program=${program#*=} ;; esac
        # shellcheck disable=SC2086  # the words of one version command
        set -- $program
        [ "$title" != version ] || title="version $1"
        if there "$1"; then section "$title" "$@"; fi
    done
}
printf '=%s facts\n' "$nonce"
