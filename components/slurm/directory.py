"""Where login nodes and workers learn who is who: the users of the settings, as files in each pod.

Owns the ConfigMap `slurm-people`: lists in the form of /etc/passwd and its like, everybody's SSH keys, and the scripts
that carry them into a container. It is mounted under one name in all login and worker pods, and a loop that begins with
the container looks into it every few seconds. So somebody who is added or changed is known everywhere a minute or two
after `up` (kubelets renew mounted ConfigMaps about once a minute), and no pod is restarted, no worker drained: not even
for another version of the scripts. There is no directory server whose outage would lock people out.

Leaves alone users of the image, and whoever is outside of the ranges of numbers below. Nothing here is secret: keys are
public ones, and nobody has a password.

What breaks if violated: the hooks and mounts are part of the pods, so a change of *them* drains every worker.

Facts: Slinky's images have bash, awk, setpriv and ps, `files` first in nsswitch.conf after `slurm`, and no `sudo`; the
operator's sshd_config has `UsePAM yes` and ends with `extraSshdConfig` (Slinky containers 26.05, slurm-operator 1.2).
"""

from collections.abc import Iterable
from typing import Any

from components.slurm.people import FIRST_UID, LAST_GID, LAST_UID, PeopleSettings

CONFIG_MAP = "slurm-people"
FOLDER = "/etc/people"
KEYS_FOLDER = "/etc/ssh/people"
SUDO_GROUP, SUDO_GID = "slurm-sudo", 49999
"""The group of those who may become root, just below the numbers that groups of the settings may have."""

END_SECONDS = 30
"""What a login pod has to end in, once everybody has been told and has had their time."""

Spec = dict[str, Any]


def files(people: PeopleSettings, *, most_processes: int) -> dict[str, str]:
    """All files of the ConfigMap, by name; `most_processes` is what a user may have on a login node."""
    users = sorted(people.users.items())
    members: dict[str, list[str]] = {name: [] for name in people.groups}
    for name, user in users:
        for group in dict.fromkeys(user.groups):
            members[group].append(name)
    sudo = [name for name, user in users if user.sudo]
    groups = [(name, str(user.uid), list[str]()) for name, user in users]
    groups += [(name, str(group.gid), members[name]) for name, group in sorted(people.groups.items())]
    groups += [(SUDO_GROUP, str(SUDO_GID), sudo)] if sudo else []
    return {
        "passwd": _lines(
            f"{name}:x:{user.uid}:{user.uid}:{user.full_name or ''}:/home/{name}:/bin/bash" for name, user in users
        ),
        # A `*` is no password that anybody could type, and, unlike no line at all, no reason for PAM to refuse a key.
        "shadow": _lines(f"{name}:*:20000::::::" for name, _ in users),
        "group": _lines(f"{name}:x:{gid}:{','.join(who)}" for name, gid, who in groups),
        "sudoers": f"%{SUDO_GROUP} ALL=(ALL) NOPASSWD: ALL\n" if sudo else "",
        "limits": f"* hard nproc {most_processes}\n",
        "apply": APPLY,
        "farewell": FAREWELL,
        **{f"keys.{name}": _lines(key.strip() for key in user.keys) for name, user in users},
    }


def sshd_conf(*, own: bool, root: bool) -> str:
    """Text for a LoginSet's `extraSshdConfig`: keys only, and only those of the settings.

    `own` is false where a directory elsewhere has the users, and their keys; `root` is whether root may log in.
    """
    keys = f"AuthorizedKeysFile {KEYS_FOLDER}/%u\n" if own else "AuthorizedKeysFile none\n" + _SSSD_KEYS
    last = "Match User root\n  AuthorizedKeysFile .ssh/authorized_keys\n" if root else ""
    allowed = "" if root else "PermitRootLogin no\n"
    return f"PasswordAuthentication no\nKbdInteractiveAuthentication no\n{allowed}{keys}{last}"


def worker_sshd_conf() -> str:
    """Text for a NodeSet's `ssh.extraSshdConfig`, where a directory elsewhere has the users."""
    return f"PasswordAuthentication no\nPermitRootLogin no\nAuthorizedKeysFile none\n{_SSSD_KEYS}"


_SSSD_KEYS = "AuthorizedKeysCommand /usr/bin/sss_ssh_authorizedkeys\nAuthorizedKeysCommandUser nobody\n"


def volume() -> Spec:
    """The pod's volume."""
    return {"name": "people", "configMap": {"name": CONFIG_MAP}}


def mount() -> Spec:
    """The container's mount: the whole folder, since a single file of it would never be renewed."""
    return {"name": "people", "mountPath": FOLDER, "readOnly": True}


def post_start(role: str, *, homes: bool) -> Spec:
    """The hook that begins the loop in a `login` or `worker` container; `homes` says whether it makes homes.

    It returns at once and never fails, because a container is killed when its hook does.
    """
    apply = f"bash {FOLDER}/apply {role}{' homes' if homes else ''}"
    # Descriptors of its own, or the kubelet would wait for the loop's end.
    loop = f"(while :; do {apply}; sleep 5; done) </dev/null >>/proc/1/fd/1 2>&1 &"
    return {"exec": {"command": ["/bin/bash", "-c", loop]}}


def login_pre_stop(notice_minutes: int) -> Spec:
    """The hook that tells people that their login node is going to end, and gives them their time."""
    return {"exec": {"command": ["/bin/bash", f"{FOLDER}/farewell", str(notice_minutes)]}}


def login_grace(notice_minutes: int) -> int:
    """A login pod's termination grace period, in seconds."""
    return notice_minutes * 60 + END_SECONDS


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


APPLY = f"""\
# Makes the users of this container those of the settings. Arguments: login or worker, and `homes` to make their homes.
set -u
role=$1 homes=${{2-}}
# All files of one version of the ConfigMap.
cd -P {FOLDER}/..data 2>/dev/null || cd {FOLDER} || exit
state=/run/people
mkdir -p $state
wanted=$(cat -- * | sha256sum)
[ "$wanted" != "$(cat $state/applied 2>/dev/null)" ] || exit 0
trouble=

# Replaces a file of /etc in one step; its mode and owner stay.
put() {{
  cp -p "/etc/$1" "/etc/.$1.people" && cat > "/etc/.$1.people" && mv "/etc/.$1.people" "/etc/$1"
}}
ours='function ours(n) {{ return (n >= {FIRST_UID} && n <= {LAST_UID}) || (n >= {SUDO_GID} && n <= {LAST_GID}) }}'
names=$(awk -F: "$ours !ours(\\$3) {{ print \\$1 }}" /etc/passwd)
{{ awk -F: "$ours !ours(\\$3)" /etc/group; cat group; }} | put group
{{ awk -F: "$ours !ours(\\$3)" /etc/passwd; cat passwd; }} | put passwd
{{ awk -F: -v names="$names" 'BEGIN {{ split(names, n, "\\n"); for (i in n) known[n[i]] }} $1 in known' /etc/shadow
  cat shadow; }} | put shadow

# Copies a file with a mode in one step, or removes it where there is nothing to say.
place() {{
  if [ ! -s "$1" ]; then rm -f "$3"; return; fi
  install -D -m "$2" "$1" "$3.new~" && mv "$3.new~" "$3"
}}
if [ "$role" = login ]; then
  place sudoers 0440 /etc/sudoers.d/people
  place limits 0644 /etc/security/limits.d/people.conf
  for file in keys.*; do
    [ ! -e "$file" ] || place "$file" 0644 "{KEYS_FOLDER}/${{file#keys.}}"
  done
  for file in {KEYS_FOLDER}/*; do
    [ -e "keys.${{file##*/}}" ] || rm -f "$file"
  done
fi

# On a shared disk root may have no rights (root squash), so people make their homes themselves where /home lets them
# (mode 1777); root does it where it may. `rmdir` takes away what an earlier attempt left half-made.
home() {{
  local uid=$1 gid=$2 home=$3 owner
  owner=$(stat -c %u "$home" 2>/dev/null)
  [ "$owner" != "$uid" ] || return 0
  [ -z "$owner" ] || rmdir "$home" 2>/dev/null || {{ echo "$home belongs to user $owner, not $uid"; return; }}
  local as=(setpriv "--reuid=$uid" "--regid=$gid" --clear-groups)
  "${{as[@]}}" mkdir -m 0700 "$home" 2>/dev/null || {{
    mkdir -m 0700 "$home" 2>/dev/null && {{ chown "$uid:$gid" "$home" 2>/dev/null || {{ rmdir "$home"; false; }}; }}
  }} || {{
    echo "$home can't be made: neither root nor user $uid may write /home. Allow it once: chmod 1777 /home"
    return
  }}
  [ ! -d /etc/skel ] || "${{as[@]}}" cp -r /etc/skel/. "$home/"
}}
if [ "$homes" = homes ]; then
  trouble=$(while IFS=: read -r _ _ uid gid _ home _; do home "$uid" "$gid" "$home"; done < passwd)
fi

# Said once, tried again and again.
if [ -n "$trouble" ]; then
  [ "$trouble" = "$(cat $state/trouble 2>/dev/null)" ] || echo "$trouble" | tee $state/trouble
else
  echo "$wanted" > $state/applied
  rm -f $state/trouble
  echo "people: $(wc -l < passwd) users, $(wc -l < group) groups"
fi
"""

FAREWELL = """\
# Tells everybody on this login node that it is going to end, and waits for them. Argument: how many minutes at most.
set -u
minutes=$1
busy() { ps -eo uid= | awk '$1 >= 1000 && $1 != 65534 { found = 1 } END { exit !found }'; }
say() { for terminal in /dev/pts/[0-9]*; do printf '\\r\\n*** %s ***\\r\\n' "$1" > "$terminal"; done 2>/dev/null; }
end=$((SECONDS + minutes * 60)) told=-1
while busy && [ $SECONDS -lt $end ]; do
  left=$(((end - SECONDS + 59) / 60))
  case $left in
    "$told") ;;
    1 | 2 | 5 | "$minutes")
      say "This login node ends in $left min. Log in again: you get another one. Jobs are not touched."
      told=$left ;;
  esac
  sleep 1
done
exit 0
"""
