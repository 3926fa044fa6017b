# SPDX-License-Identifier: Apache-2.0
# Finds (or makes) a job's spool directory and hands over to the runner in it. Sent with each call:
#   sh -c THIS spool BASE UID VERB NAME [ARGUMENT...]     stdin: a tar for `start` and `short`
# Refuses a directory that another user could have made. POSIX sh.
umask 077
spools=$1/benchlab-${2:-$(id -u)} verb=$3 name=$4
shift 4

refuse() {
  echo "$1" >&2
  exit 3
}

ours() {
  [ -d "$spools" ] && [ ! -h "$spools" ] && [ -O "$spools" ]
}

make_spool() {
  [ -d "$spools" ] || mkdir -m 700 "$spools" 2>/dev/null
  [ -e "$spools" ] || refuse "cannot make $spools: $(mkdir -m 700 "$spools" 2>&1)"
  ours || refuse "$spools is not a directory of this user: another user created it; remove it"
  # Looked at once: who but us could open it, or make a file of ours in it, later?
  [ -O "$spools/.private" ] || case $(ls -ld "$spools") in
    drwx------*) : >"$spools/.private" ;;
    *) refuse "$spools is accessible to other users: check what is inside, then chmod 700 it" ;;
  esac
  # mkdir is the lock: whoever makes the directory starts the job, once.
  mkdir "$spools/$name" 2>/dev/null && return
  [ -d "$spools/$name" ] || refuse "cannot make $spools/$name: $(mkdir "$spools/$name" 2>&1)"
  echo start=already
  exit 0
}

started_by() { # "PID BORN", as runner.sh looks for it
  # shellcheck disable=SC2086
  { IFS= read -r stat <"/proc/$$/stat"; } 2>/dev/null && set -- ${stat##*) }
  echo "$$ ${20}" >starter
}

unpack() {
  cd "$spools/$name" || refuse "cannot enter $spools/$name"
  started_by
  tar -xf - && [ -f complete ] && return
  cd / && rm -rf -- "$spools/$name"
  refuse "the job arrived incomplete, nothing was started (is $spools full?)"
}

case $verb in
  start | short)
    make_spool
    unpack
    ;;
  *)
    ours && cd "$spools/$name" 2>/dev/null || {
      echo state=absent
      exit 0
    }
    [ -f benchlab ] || refuse "$spools/$name has no marker file: it is not a BenchLab job"
    ;;
esac
exec sh ./runner.sh "$verb" "$@"
