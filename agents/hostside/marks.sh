# SPDX-License-Identifier: Apache-2.0
# Functions of the tools' own scripts, placed behind the comment at their top. POSIX sh.
# `mark WORDS` notes the time of now, `marked` that of each line that passes through it: of a program that prints the
# beginning of a line when it begins something, a line is whole when that is over, or the next thing begins.
now() { ns=0; }
if [ -f ../sampler.sh ]; then
    . ../sampler.sh
    [ -r /proc/self/stat ] || . ../freebsd.sh
fi
: >marks
rm -f exit-code
mark() {
    now
    printf '%s %s\n' "$ns" "$*" >>marks
}
marked() ( # never the first to go: what the program says when it is stopped passes, too
    trap '' INT TERM
    while IFS= read -r line; do
        mark "$line"
        printf '%s\n' "$line"
    done
    [ -z "$line" ] || printf '%s' "$line"
)
ended() { # with the exit code of what wrote to `marked`
    read -r code <exit-code && exit "$code"
    exit 1
}
