# Functions of runner.sh that look at the host once per tick. POSIX sh; one fork a tick, the sleep.
#
# A frame is "@ NANOSECONDS", then "# FILE" and each of its lines behind one blank, then ".".
# It is written in one go, so that only the last frame of a file can be torn.
newline='
'

now() { # ns = the monotonic clock; root reads it exactly, others to 10 ms
  if [ -r /proc/timer_list ]; then
    { read -r _ && read -r _ && read -r _ _ ns _; } </proc/timer_list
  else
    read -r ns _ </proc/uptime
    ns=${ns%.*}${ns#*.}0000000
  fi
}

# bash seeks after each line it reads, which makes /proc generate the file anew and may tear lines.
if [ -n "${BASH_VERSION-}" ]; then
  eval 'read_file() { mapfile lines <"$1" && printf -v copied " %s" "${lines[@]}" && text=$text$copied; }'
else
  read_file() {
    while IFS= read -r line; do
      text="$text $line$newline"
    done <"$1"
  }
fi

frame() { # FILE...
  now
  text="@ $ns$newline"
  for file in "$@"; do
    [ -r "$file" ] || continue
    text="$text# $file$newline"
    read_file "$file"
  done
  printf '%s.\n' "$text" >>samples
}

wakeful() { # lets a TERM end this process in the middle of a nap, and leave no sleep behind
  before=$!
  # KILL, for a sleep that is not yet one still has this very trap, and would swallow a TERM.
  trap '[ "$!" = "$before" ] || kill -KILL "$!" 2>/dev/null; exit 0' TERM
}

nap() { # SECONDS
  sleep "$1" &
  wait $!
}

sample() { # forever: a frame each interval_ms from the first one on, without drift
  wakeful
  due=$ns
  while alive "$leader"; do
    now
    due=$((due + interval_ms * 1000000))
    [ "$due" -gt "$ns" ] || due=$((ns + interval_ms * 1000000)) # late: skip ticks, never hurry
    wait_ms=$(((due - ns) / 1000000))
    part=$((1000 + wait_ms % 1000))
    nap "$((wait_ms / 1000)).${part#1}" || nap 1 # a sleep that knows no fractions
    # shellcheck disable=SC2086  # patterns may name several files
    frame $sampled
  done
}
