# SPDX-License-Identifier: Apache-2.0
# One detached job in its spool directory, which is the current directory here. POSIX sh; few forks,
# for a fork may cost 25 ms. Called by spool.sh:
#   runner.sh start | poll WAIT_S OFFSET [fetch FILE...] | fetch FILE... | piece PATH NUMBER | stop | remove
#   runner.sh short
#
# benchlab  marker, last in every archive     settings  timeout_s grace_s interval_ms drop_caches sampled
# command   exports, exec of the tool         work/     the tool's directory: inputs and outputs
# reserve   space for the notes on the end: removed where the file system is full by then
# ran_as    the tool's user, and why that is root
# starter begun tool running ended            what happened so far, each written once, whole or not at all
# stopped expired                             somebody stopped it; its time was over
# Processes are known as "PID BORN", BORN in clock ticks since boot: a PID alone may be another's by now.
verb=$1
shift
umask 077
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
leader='' tool='' home='' own_session='' helpers='' boot='' begun='' running='' ended='' how='' exit='' full=no
tick=0.2 # seconds between two looks where nothing better than looking again and again is there
. ./settings
. ./sampler.sh
. ./outputs.sh
. ./as_user.sh

look() { # PID: sets born, group; fails when there is no such process, or only a zombie
  IFS= read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
  # shellcheck disable=SC2086
  set -- ${stat##*) }
  group=$3 born=${20}
  case $1 in Z | X) return 1 ;; esac
}

alive() { # "PID BORN"
  [ -n "$1" ] && look "${1% *}" && [ "$born" = "${1#* }" ]
}

own_pid() { # sets pid: of this process, which may be a subshell
  read -r pid _ </proc/self/stat
}

all_pids() { # sets pids
  pids=
  for entry in /proc/[0-9]*; do
    pids="$pids ${entry#/proc/}"
  done
}

works_here() { # PID: is its directory that of the tool?
  [ "/proc/$1/cwd" -ef work ]
}

being_started() { # spool.sh is unpacking, or we have just begun
  read -r starter born <starter && alive "$starter $born"
}

this_boot() {
  read -r this_boot </proc/sys/kernel/random/boot_id
}

start() {
  this_boot
  if command -v flock >/dev/null; then
    exec 9>lock # held by the leader for as long as it lives; poll waits for it
    flock -n 9
  fi
  command -v setsid >/dev/null && own_session=setsid
  own='unshare --mount --propagation slave' # slave: what is unmounted on the host goes here, too
  [ "$unprivileged" = yes ] && $own true 2>/dev/null || own=''
  $own_session $own sh ./runner.sh lead "${own_session:+yes}" "${own:+yes}" </dev/null >/dev/null 2>runner.log &
  look $! || born=0
  printf 'boot=%s\nleader="%s"\nbegun=whole\n' "$this_boot" "$! $born" >begun
  echo start=started
}

lead() { # OWN_SESSION OWN_MOUNTS: runs the job to its end
  trap '' HUP
  look $$
  leader="$$ $born"
  own_mounts=$2
  become
  tell_user
  caches
  sampler=''
  sources=
  # shellcheck disable=SC2086
  present $lasting && lasting=$found
  # shellcheck disable=SC2086
  present $each && each=$found
  if [ -n "$sampled$lasting$each" ]; then
    # shellcheck disable=SC2086
    frame $sampled
    open_streams
    sample 9>&- 8>&- &
    sampler=$!
  fi
  dropper=''
  if [ -n "$user" ] && [ "$lays_out" = yes ] && mkfifo asked answered; then
    drop_once 9>&- 8>&- &
    dropper=$!
  fi
  now
  started=$ns
  launch "$1" </dev/null >stdout 2>stderr 9>&- 8>&- &
  tool=$!
  watch_time 9>&- 8>&- &
  watcher=$!
  # Only now, for a child would have this trap for a moment: outlive the tool to tell its end.
  trap : TERM
  note_running
  collect
}

launch() { # OWN_SESSION: becomes the tool; who it is is written down before it does anything
  own_pid
  look "$pid"
  [ -n "$1" ] && group=$pid
  printf 'home=%s\nown_session=%s\ntool="%s"\nuser=%s\n' "$group" "$1" "$pid $born" "$user" >tool
  [ -e stopped ] && exit 143
  [ -z "$user" ] || run_as_user "$1"
  cd work && exec ${1:+setsid} sh -c '. ../command'
}

caches() { # there is no read-back but the page cache itself: record it before and after
  cached
  before=$cached_kib dropped=no
  if [ "$drop_caches" = yes ]; then
    drop
  fi
  cached
}

drop() {
  sync
  { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null && dropped=yes || dropped=refused
}

cached() {
  cached_kib=
  while read -r name cached_kib _; do
    [ "$name" = Cached: ] && return
  done </proc/meminfo
}

note_running() { # the wall clock only now: a fork before the tool would be time between two runs
  now
  from=$ns # on a busy host a fork takes long: what the wall clock said was so between these two
  wall
  now
  helpers=
  for helper in $watcher $sampler $dropper $sources; do
    look "$helper" && helpers="$helpers $helper $born"
  done
  printf '%s\n' "noted_at=$at" "noted_from_ns=$from" "noted_ns=$ns" "started_ns=$started" \
    "helpers=\"$helpers\"" "dropped=$dropped" "cached_before_kib=$before" \
    "cached_after_kib=$cached_kib" running=whole >running
}

watch_time() { # ends the tool when its time is over, whatever became of the leader
  wakeful
  nap "$timeout_s"
  judge
  busy || [ $state = vanished ] || exit 0
  : >expired
  signal TERM
  nap "$grace_s"
  signal KILL
}

collect() {
  while :; do
    wait $tool
    code=$?
    look $tool || break # else a signal to us woke the wait
  done
  now
  # shellcheck disable=SC2086
  kill -TERM $sampler $watcher $dropper $sources 2>/dev/null
  # shellcheck disable=SC2086
  kill -CONT $sampler $watcher $dropper $sources 2>/dev/null # one that somebody stopped would be waited for without end
  if [ -f tool ]; then . ./tool; fi
  [ -n "$own_session" ] && kill -KILL "-$home" 2>/dev/null # what the tool left in its group
  ended_ns=$ns
  wait $sampler $watcher $dropper 2>/dev/null # dash names the signal that ended one before it could handle it
  last=yes
  # shellcheck disable=SC2086
  [ -n "$sampled$lasting$each" ] && frame $sampled
  leave # only now: the last frame comes right behind the tool
  how=exited
  [ -e expired ] && how=timeout
  [ -e stopped ] && how=killed
  note_end || {
    rm -f reserve
    full=yes
    note_end
  }
}

note_end() { # fails where there is no space left
  printf '%s\n' "exit=$code" "ended_ns=$ended_ns" "full=$full" "how=$how" ended=whole 2>/dev/null >ended
  [ -s ended ]
}

judge() { # sets state, from what was written and who lives
  state=starting
  if [ -f begun ]; then . ./begun; fi
  if [ -f tool ]; then . ./tool; fi
  if [ -f running ]; then . ./running; fi
  this_boot
  if [ "$begun" != whole ]; then
    being_started || state=vanished
  elif [ "$boot" != "$this_boot" ]; then
    state=rebooted
  elif alive "$leader"; then
    [ "$running" = whole ] && [ -n "$tool" ] && state=running
  else
    state=vanished
    [ -e stopped ] && state=killed
  fi
  # Last, for the leader may have written its end and gone while we looked.
  if [ -f ended ]; then . ./ended; fi
  [ "$ended" = whole ] && state=$how
}

busy() {
  case $state in starting | running) ;; *) return 1 ;; esac
}

until_after() { # SECONDS, with a fraction or without: sets until, to 10 ms
  case $1 in *.*) part=${1#*.}0 ;; *) part=00 ;; esac
  until=$((ns + ${1%.*} * 1000000000 + (1${part%"${part#??}"} - 100) * 10000000))
}

poll() { # WAIT_S OFFSET [fetch FILE...]: with `fetch`, a job that is over is fetched in the same breath
  judge
  if busy && [ "$1" != 0 ]; then
    now
    until_after "$1"
    [ -f lock ] && { flock -s -w "$1" 9; } 9<lock 2>/dev/null
    judge
    while busy && now && [ "$ns" -lt $((until - 200000000)) ]; do # no flock, or one without -w
      sleep $tick || sleep 1
      judge
    done
  fi
  printf 'state=%s\nexit=%s\nfrom=%s\n\n' "$state" "$exit" $(($2 / 4096 * 4096))
  if ! busy && [ "$3" = fetch ]; then
    shift 3
    pack "$@"
  fi
  [ ! -f samples ] || dd if=samples bs=4096 skip=$(($2 / 4096)) count=1024 2>/dev/null
}

signal() { # NAME: to the tool and all it started; fails when nobody of ours is there
  if [ -n "$own_session" ] && alive "$tool"; then
    kill "-$1" "-$home" 2>/dev/null || kill "-$1" "${tool% *}" # it had no group yet
    return
  fi
  [ -n "$home" ] || return
  reached=1
  all_pids
  for pid in $pids; do
    look "$pid" && [ "$group" = "$home" ] && works_here "$pid" || continue
    # A number is not given out again while a member of that group lives: one of ours, all ours.
    if [ -n "$own_session" ]; then
      kill "-$1" "-$home" 2>/dev/null
      return
    fi
    kill "-$1" "$pid" 2>/dev/null && reached=0
  done
  return $reached
}

settled() { # waits up to grace_s until nobody of ours is left
  now
  until=$((ns + grace_s * 1000000000))
  while alive "$leader" || signal 0; do
    now
    [ "$ns" -lt $until ] || return 1
    sleep $tick || sleep 1
  done
}

stop() { # ends what still runs of this job, and nothing else; at any moment, any number of times
  judge
  did=nothing
  if busy || [ $state = vanished ]; then
    : >stopped
    judge # a tool that was not launched yet now sees that it should not be
    { busy || signal 0; } && did=terminated
    signal TERM
    settled || {
      did=killed
      judge
      signal KILL || { alive "$leader" && kill -KILL "${leader% *}"; }
      settled || did=survived
    }
    # shellcheck disable=SC2086
    stop_helpers $helpers
    alive "$leader" || leave
    judge
  fi
  printf 'did=%s\nstate=%s\n' $did $state
}

stop_helpers() { # PID BORN...
  while [ $# -gt 1 ]; do
    alive "$1 $2" && kill -TERM "$1"
    shift 2
  done
}

remove() {
  judge
  if busy || { [ $state = vanished ] && signal 0; }; then
    echo "state=$state"
    exit
  fi
  name=${PWD##*/}
  cd .. && rm -rf -- "./$name" && echo state=absent
}

short() { # a quick run in the foreground, then no trace of it
  place=''
  if [ "$unprivileged" = yes ] && find_user; then
    command=$(cat command)
    chown -R "$user:$user" work
    (run_as_user '') </dev/null
    code=$?
    leave
  else
    (cd work && exec sh -c '. ../command') </dev/null
    code=$?
  fi
  name=${PWD##*/}
  cd .. && rm -rf -- "./$name"
  exit $code
}

[ -r /proc/self/stat ] || . ./freebsd.sh
"$verb" "$@"
