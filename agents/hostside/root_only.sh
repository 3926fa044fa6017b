# SPDX-License-Identifier: Apache-2.0
# Which programs may run as root: those that only root can change or replace. Sent in front of scripts. POSIX sh.
# Every directory is checked from / down, and each symbolic link on the way is resolved here, step by step: what is
# above a component cannot change any more once the component is looked at. Run what `real` names, nothing else.
only_root() { # PATH: sets real, the same program without a symbolic link; fails, and sets doubt, when others may change it
    real='' doubt='' rest=$1 links=0
    case $rest in /*) ;; *) doubt="$1 is not an absolute path" && return 1 ;; esac
    owned_by_root / || return 1
    while [ -n "$rest" ]; do
        part=${rest%%/*}
        case $rest in */*) rest=${rest#*/} ;; *) rest='' ;; esac
        case $part in
            '' | .) continue ;;
            ..) real=${real%/*} && continue ;;
        esac
        owned_by_root "$real/$part" || return 1
        case $mode in
            l*) follow "$real/$part" || return 1 ;;
            d*) real=$real/$part ;;
            *)
                real=$real/$part
                [ -z "$rest" ] || { doubt="$real is not a directory" && return 1; }
                ;;
        esac
    done
    [ -f "$real" ] && [ -x "$real" ] || { doubt="${real:-/} is not an executable file" && return 1; }
    mounted_by_root
}

may_run() { # PATH: of a program that was searched for; sets real. Who logs in without root runs what they like
    real=$1 doubt=''
    # as_user.sh's user runs what root would have run
    { [ ! -O / ] && [ -z "${BENCHLAB_USER:-}" ]; } || only_root "$1"
}

owned_by_root() { # PATH: sets mode
    listed=$(LC_ALL=C ls -ldn 2>/dev/null -- "$1") || { doubt="$1 does not exist" && return 1; }
    read -r mode _ owner _ <<END
$listed
END
    [ "$owner" = 0 ] || { doubt="$1 belongs to user $owner" && return 1; }
    case $mode in
        l*) ;; # its mode means nothing: who may replace it is up to the directory
        # A sticky directory too: what root has in /tmp is removed when it is old, and anybody may take its name.
        ?????w* | ????????w*) doubt="$1 is writable by users other than root ($mode)" && return 1 ;;
        *+) doubt="$1 has an access control list, which may let other users write ($mode)" && return 1 ;;
    esac
}

follow() { # LINK: puts its target in front of rest
    links=$((links + 1))
    [ "$links" -le 40 ] || { doubt="$1 is one of too many symbolic links" && return 1; }
    target=$(readlink -- "$1" && echo .) || { doubt="$1 cannot be resolved" && return 1; }
    target=${target%??} # the line's end and the dot, which keep the end of the name
    case $target in /*) real='' ;; esac
    rest=$target/$rest
}

mounted_by_root() { # what users attach (FUSE, removable media, "user" in fstab) is always nosuid, whoever it says owns it
    [ -r /proc/self/mountinfo ] || return 0
    while read -r _ _ _ _ point flags _; do
        case $point in *\\*) point=$(printf '%b.' "$point") && point=${point%.} ;; esac
        case $real/ in "${point%/}"/*) ;; *) continue ;; esac
        case ,$flags, in *,nosuid,*) doubt="$point is mounted nosuid, as it is for what users attach" && return 1 ;; esac
    done </proc/self/mountinfo
}
