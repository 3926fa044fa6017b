# SPDX-License-Identifier: Apache-2.0
# Functions of runner.sh that hand out what a job left. Sourced by it, in the spool directory. POSIX sh.
at_once=67108864 each_most=16777216 # bytes in one answer, and of one file in it; the rest is asked for in pieces

fetch() { # FILE... of the tool (plain names): as pack
  judge
  pack "$@"
}

pack() { # FILE...: a tar of all there is, the marker last; `waiting` in it tells BYTES PATH of what is too large for it
  now
  from=$ns
  wall
  now
  note_fetch || {
    rm -f reserve
    note_fetch
  } || cannot_write
  : >waiting
  found=
  for file in stdout stderr samples runner.log begun running ended halted fetched ran_as "$@"; do
    case " $* " in *" $file "*) file=work/$file ;; esac
    { [ -e "$file" ] || [ -h "$file" ]; } && found="$found $file"
  done
  # shellcheck disable=SC2086
  ls -lnd $found >listed || cannot_write # one fork for all their sizes
  fitting
  # shellcheck disable=SC2086
  exec tar -cf - $found waiting benchlab
}

note_fetch() { # fails where there is no space left
  printf '%s\n' "state=$state" "fetched_from_ns=$from" "fetched_ns=$ns" "fetched_at=$at" 2>/dev/null >fetched
  [ -s fetched ]
}

cannot_write() { # why: a disk is full, without inodes or read-only
  echo "cannot write in $PWD: $(cp settings tried 2>&1)" >&2
  rm -f tried
  exit 3
}

fitting() { # sets found: what of `listed` goes into one answer
  found= sum=0
  while read -r kind _ _ _ size _ _ _ file; do
    case $kind in
      -*)
        if [ "$size" -gt $each_most ] || [ $((sum + size)) -gt $at_once ]; then
          echo "$size $file" >>waiting
          continue
        fi
        sum=$((sum + size))
        ;;
      l*) file=${file%% -> *} ;; # refused where it arrives, as all that is no plain file
      *) file=${file##* } ;;     # of a device node there are two numbers where others have their size
    esac
    found="$found $file"
  done <listed
}

piece() { # PATH NUMBER: 16 MiB of a file, packed where there is a gzip
  if [ ! -f "$1" ] || [ -h "$1" ]; then
    echo "$1 is not a plain file" >&2
    exit 3
  fi
  if command -v gzip >/dev/null; then
    printf 'packed=yes\n\n'
    one_piece "$@" | exec gzip -1 -c
  else
    printf 'packed=no\n\n'
    one_piece "$@"
  fi
}

one_piece() { # PATH NUMBER
  dd if="$1" bs=1048576 skip=$(($2 * 16)) count=16 2>/dev/null
}
