# SPDX-License-Identifier: Apache-2.0
# Functions of runner.sh that look at the host once per tick. POSIX sh; one fork a tick, the sleep.
#
# A frame is "@ NANOSECONDS", then "# FILE" and each of its lines behind one blank, then ".".
# It is written in one go, so that only the last frame of a file can be torn.
# What a command prints is behind "# |COMMAND"; of a command that goes on, each line behind the
# nanoseconds at which it (or its report's first line) came.
newline='
'
last=''
writing=''
told=''
halted=0

now() { # ns = the monotonic clock; root reads it exactly, others to 10 ms
  if [ -r /proc/timer_list ]; then
    { read -r _ && read -r _ && read -r _ _ ns _; } </proc/timer_list
  else
    read -r ns _ </proc/uptime
    ns=${ns%.*}${ns#*.}0000000
  fi
}

wall() { # at = the wall clock, in seconds
  at=$(date +%s.%N)
}

# bash seeks after each line it reads, which makes /proc generate the file anew and may tear lines.
if [ -n "${BASH_VERSION-}" ]; then
  eval 'read_file() { mapfile lines <"$1" && [ "${#lines[@]}" != 0 ] && printf -v copied " %s" "${lines[@]}" && text=$text$copied; }'
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
  for number in $lasting; do
    take_stream "$number"
  done
  for number in $each; do
    run_once "$number"
  done
  writing=yes # a TERM from here on waits: lines would be lost, or come twice
  printf '%s.\n' "$text" >>samples
  for number in $lasting; do
    put_aside "$number"
  done
  writing=
  [ -z "$told" ] || exit 0
}

present() { # NUMBER...: sets found, those commands whose stack is here; the others shall cost nothing
  found=
  for number in "$@"; do
    eval "where=\$where_$number"
    # shellcheck disable=SC2086  # patterns
    if [ -z "$where" ] || any_file $where; then found="$found $number"; fi
  done
}

any_file() { # FILE...
  for file in "$@"; do
    [ ! -e "$file" ] || return 0
  done
  return 1
}

head_line() { # NUMBER: of a command's part in a frame
  eval "text=\"\$text# \$key_$1\$newline\""
}

run_once() { # NUMBER: in the background, so that a TERM can end the wait for it
  sh "./sampled-$1" </dev/null >"once-$1" 2>/dev/null &
  wait $!
  head_line "$1"
  read_file "once-$1"
  case $text in *"$newline") ;; *) text=$text$newline ;; esac # its last line was cut
}

open_streams() { # starts every command that goes on, and who stamps its lines; sets sources
  for number in $lasting; do
    mkfifo "pipe-$number"
    sh "./sampled-$number" </dev/null >"pipe-$number" 2>/dev/null 9>&- 8>&- &
    sources="$sources $!"
    stamp_lines "$number" <"pipe-$number" 9>&- 8>&- &
    sources="$sources $!"
  done
}

stamp_lines() { # NUMBER
  eval "begins=\$begins_$1"
  now
  while IFS= read -r line; do
    # shellcheck disable=SC2254  # a pattern
    case $line in $begins) now ;; esac
    printf '%s %s\n' "$ns" "$line" >>"stream-$1"
  done
}

take_stream() { # NUMBER: what was put aside one frame ago, so that nobody writes to it any more
  head_line "$1"
  [ ! -s "aside-$1" ] || read_file "aside-$1"
  [ -z "$last" ] || [ ! -s "stream-$1" ] || read_file "stream-$1"
}

put_aside() { # NUMBER: only now, for a frame that a TERM ended was never written: the last one takes its lines
  if [ -f "stream-$1" ]; then
    mv -f "stream-$1" "aside-$1"
  elif [ -s "aside-$1" ]; then
    : >"aside-$1"
  fi
}

wakeful() { # lets a TERM end this process in the middle of a nap, and leave no sleep behind
  before=$!
  # KILL, for a sleep that is not yet one still has this very trap, and would swallow a TERM.
  trap '[ "$!" = "$before" ] || kill -KILL "$!" 2>/dev/null; told=yes; [ -n "$writing" ] || exit 0' TERM
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
    note_halted
    # shellcheck disable=SC2086  # patterns may name several files
    frame $sampled
  done
}

note_halted() { # counts the looks at which the tool was stopped (SIGSTOP): its clock went on
  [ -n "$tool" ] || { [ -f tool ] && . ./tool; }
  [ -n "$tool" ] && { IFS= read -r stat <"/proc/${tool% *}/stat"; } 2>/dev/null || return 0
  case ${stat##*) } in
    T*)
      halted=$((halted + 1))
      echo "halted=$halted" 2>/dev/null >halted
      ;;
  esac
}
