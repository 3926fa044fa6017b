# SPDX-License-Identifier: Apache-2.0
# Functions of runner.sh for a tool that need not be root. It runs as a user that no account has, without capabilities,
# in a mount namespace of the job: there this user may open the layout's device or directory, and else what everybody
# may. Where the host cannot do that, root runs the tool as before, and `ran_as` says why. Sourced by runner.sh, in the
# spool directory. POSIX sh.
first_user=61184 users=4096 # of systemd's range for dynamic users
keeper=65280 # nobody runs as it: owns between two jobs what the first one left for the next
user='' own_mounts='' claimed=''

as_user() { # COMMAND ARG...: becomes it; no exec brings a privilege back
  exec setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all "$@"
}

become() { # before anything is measured: opens the place for a user; sets user, or why_root
  take_back
  [ "$unprivileged" = yes ] || return 0
  if ! try_to_become; then
    leave
    user=''
  fi
}

try_to_become() {
  if [ "$own_mounts" != yes ]; then
    why_root="this host did not make a mount namespace"
    return 1
  fi
  allowed && find_user && own_files && open_place && reaches
}

allowed() { # what the kernel may keep for root
  for switch in $must_be_off; do
    value=0
    { read -r value; } 2>/dev/null <"/proc/sys/$switch"
    [ "$value" != 0 ] || continue
    why_root="/proc/sys/$switch is $value, which leaves it to root"
    return 1
  done
}

find_user() { # one that no account has and no process runs as
  number=${PWD##*-}
  case $number in '' | *[!0-9]*) number=$$ ;; esac
  user=$first_user
  if ! (as_user true) 2>/dev/null; then
    user='' why_root="this host's setpriv is missing or too old"
    return 1
  fi
  for more in 0 1 2 3 4 5 6 7 8 9; do
    user=$((first_user + (number + more) % users))
    has_account && continue
    claim && ! is_running && return
    release
  done
  user='' why_root="this host has no flock, or every user ID tried is in use"
  return 1
}

claim() { # no other job of this host has the user while this process lives, whatever installation sent it
  { command exec 8>"../user-$user"; } 2>/dev/null && flock -n 8 2>/dev/null &&
    [ "../user-$user" -ef /proc/self/fd/8 ] && claimed=yes
}

release() {
  [ -z "$claimed" ] || rm -f "../user-$user"
  exec 8>&-
  claimed=''
}

has_account() {
  if command -v getent >/dev/null; then
    getent passwd "$user" || getent group "$user"
  else
    grep ":$user:" /etc/passwd /etc/group
  fi >/dev/null 2>&1
}

is_running() { # any process of the user that has not ended
  # shellcheck disable=SC2016
  (as_user sh -c '
    for one in /proc/[0-9]*; do
      [ -O "$one" ] && [ "$one" != /proc/$$ ] && IFS= read -r stat <"$one/stat" || continue
      case ${stat##*)} in " Z"* | " X"*) ;; *) exit 0 ;; esac
    done
    exit 1') 2>/dev/null
}

own_files() { # work/ as a mount of its own: no file from elsewhere can be linked into it
  command=$(cat command) && : >stdout && : >stderr && chown -R "$user:$user" work stdout stderr &&
    mount -n --bind work work 2>/dev/null && return
  why_root="its working directory could not be opened for another user"
  return 1
}

open_place() {
  if [ -d "$place" ]; then
    open_directory
  else
    open_device 2>/dev/null && return
    why_root="$place could not be opened for another user"
    return 1
  fi
}

open_directory() {
  if [ ! -O "$place" ]; then
    why_root="$place does not belong to root"
    return 1
  fi
  # shellcheck disable=SC2046
  set -- $(stat -f -c '%a %S' -- "$place" 2>/dev/null)
  if [ $# = 2 ] && [ $(($1 * $2)) -lt "$room" ]; then
    why_root="the file system keeps the space that it needs for root"
    return 1
  fi
  chown "$user" "$place" &&
    find "$place" -xdev -mindepth 1 -user "$keeper" -exec chown -h "$user:$user" {} + && return
  why_root="$place could not be opened for another user"
  return 1
}

open_device() { # a second node of the same device, over the first: udev sees and changes the first one only
  device=$(readlink -f -- "$place") && [ -b "$device" ] || return 1
  # shellcheck disable=SC2046
  set -- $(LC_ALL=C ls -ln -- "$device") # brw-rw---- 1 0 6 8, 16 Nov 28 03:51 /dev/sdb
  mkdir node && mount -n -t tmpfs -o mode=700,size=64k benchlab node &&
    mknod -m 600 node/device b "${5%,}" "$6" && chown "$user:$user" node/device &&
    mount -n --bind node/device "$device" && umount -n node
}

reaches() { # the place by its path, and the program that root would run
  # shellcheck disable=SC2016
  (as_user sh -c '[ -r "$1" ] && [ -w "$1" ] && { [ ! -d "$1" ] || [ -x "$1" ]; }' sh "$place") 2>/dev/null || {
    why_root="no other user can reach $place"
    return 1
  }
  # shellcheck disable=SC2016
  found=$(as_user sh -c 'command -v -- "$1"' sh "$program" 2>/dev/null)
  [ "$found" = "$(command -v -- "$program")" ] && return
  why_root="no other user can reach $program"
  return 1
}

tell_user() {
  runs_as=$user
  [ -n "$runs_as" ] || [ ! -O / ] || runs_as=0
  printf 'user=%s\nwhy_root=%s\n' "$runs_as" "$why_root" >ran_as
}

run_as_user() { # SETSID: becomes the tool. Limits that root does not have must not change what it measures
  # shellcheck disable=SC3045  # dash, bash, BusyBox: what a shell does not know stays as it is
  { ulimit -l unlimited; } 2>/dev/null
  # shellcheck disable=SC3045
  { ulimit -u unlimited || ulimit -p unlimited; } 2>/dev/null
  if [ -p asked ]; then
    exec 7>asked 6<answered
  fi
  cd work && export BENCHLAB_USER="$user" HOME="$PWD" &&
    exec ${1:+setsid} setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all sh -c "$command"
}

drop_once() { # drops the page cache for the user, when the tool's script asks for it between layout and measurement
  exec 5<>asked 6>answered
  read -r _ <&5
  drop
  echo "$dropped" >&6
}

leave() { # ends all that runs as the user; nothing of theirs stays for a tool that root runs
  [ -n "$user" ] || return 0
  now
  until=$((ns + grace_s * 1000000000))
  while
    # Another job may have the user since the leader of this one was killed: those processes are not ours.
    [ -n "$claimed" ] || claim && (as_user sh -c 'kill -KILL -1') 2>/dev/null
    is_running
  do
    now
    [ "$ns" -lt $until ] || break
    sleep $tick || sleep 1
  done
  if [ -d "$place" ] && owns "$place"; then
    give_back
  fi
  release
}

give_back() { # what root could follow or wait for goes in any case
  if [ "$keeps" = yes ] && [ -n "$claimed" ]; then
    find "$place" -xdev -mindepth 1 -user "$user" ! -type f ! -type d -exec rm -f -- {} +
    find "$place" -xdev -mindepth 1 -user "$user" -exec chown -h "$keeper:$keeper" {} +
  else
    find "$place" -xdev -mindepth 1 -maxdepth 1 -user "$user" -exec rm -rf -- {} +
  fi
  chown 0 "$place"
}

owns() { # PATH: does it belong to the user?
  # shellcheck disable=SC2046
  set -- $(LC_ALL=C ls -ldn -- "$1")
  [ "$3" = "$user" ]
}

take_back() { # a directory that was still open when the leader of a job was killed
  [ -d "$place" ] && [ -O / ] && [ ! -O "$place" ] || return 0
  # shellcheck disable=SC2046
  set -- $(LC_ALL=C ls -ldn -- "$place")
  user=$3
  if [ "$user" -ge $first_user ] && [ "$user" -lt $((first_user + users)) ] && ! has_account; then
    kept=$keeps keeps=yes # whether that job's tool leaves something for the next is not known
    leave
    keeps=$kept
  fi
  user=''
}
