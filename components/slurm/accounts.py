"""Accounts, QOS and limits of the settings, brought into Slurm's database and kept there.

Owns what the settings name: every limit of it is set, and one that is not in the settings is taken away, so that a
limit set by hand lasts until the next look at most. Leaves alone what the settings do not name, which is reported, and
deleted only where `deleteUnlisted` says so.

A pod with Slurm's clients does it: it looks every few minutes, and `up` waits until it has succeeded once. Its log says
what was changed, by whoever: `kubectl -n slurm logs deployment/slurm-accounts`.

Facts, measured with Slurm 26.05.5: `modify … set parent=` to the parent that an account has refuses the whole command;
`-1` takes away a limit, an empty list a list of QOS; names and descriptions are stored in lower case; root is an
administrator of the database.
"""

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from components.slurm.account_settings import (
    ROOT,
    TRES,
    AccountSettings,
    Amounts,
    LimitSettings,
    MemberSettings,
    QosSettings,
)

NAME = "slurm-accounts"
EVERYBODY = "everybody"
"""The account of all users where the settings have no account."""

FOLDER, STATE = "/etc/accounts", "/run/accounts"
LOOK_SECONDS = 300
AGAIN_SECONDS = 10
"""Until the next look after one that worked, and after one that did not."""


def with_default(accounts: Mapping[str, AccountSettings], users: Iterable[str]) -> Mapping[str, AccountSettings]:
    """The accounts of the settings; without any, one for all: a user without an account can't submit anything."""
    members = {name: MemberSettings() for name in users}
    return accounts or {EVERYBODY: AccountSettings.model_construct(users=members)}


def files(
    *,
    cluster: str,
    conf_server: str,
    accounts: Mapping[str, AccountSettings],
    qos: Mapping[str, QosSettings],
    gpu_types: Iterable[str],
    delete_unlisted: bool,
) -> dict[str, str]:
    """The scripts, by name: `apply` looks once, `run` again and again."""
    wanted = "\n".join(_wanted(accounts, qos, [*TRES, *(f"gres/gpu:{each}" for each in sorted(set(gpu_types)))]))
    apply = _APPLY.format(cluster=shlex.quote(cluster), state=STATE, wanted=wanted, delete=int(delete_unlisted))
    run = _RUN.format(folder=FOLDER, state=STATE, server=conf_server, look=LOOK_SECONDS, again=AGAIN_SECONDS)
    return {"apply": apply, "run": run}


def _wanted(
    accounts: Mapping[str, AccountSettings], qos: Mapping[str, QosSettings], tres: Sequence[str]
) -> Iterator[str]:
    """Calls of the script's functions; what is named comes before what names it."""
    ordered = _parents_first(accounts)
    yield from (_call("qos", name) for name in qos)
    yield from (_call("qos_limits", name, *_qos(each, tres)) for name, each in qos.items())
    for name in ordered:
        each = accounts[name]
        yield _call("account", name, each.parent, each.description or name)
        levels = [f"QosLevel={','.join(each.qos)}", f"DefaultQOS={each.default_qos or -1}"]
        yield _call("account_limits", name, *_limits(each, tres), *levels)
    default: dict[str, str] = {}
    for name in ordered:
        for user, member in accounts[name].users.items():
            yield _call("member", name, user, *_limits(member, tres))
    for name, each in accounts.items():
        for user, member in each.users.items():
            if member.default or user not in default:
                default[user] = name
    yield from (_call("default_account", user, name) for user, name in default.items())


def _parents_first(accounts: Mapping[str, AccountSettings]) -> list[str]:
    found: list[str] = []
    while len(found) < len(accounts):
        found += [name for name, each in accounts.items() if name not in found and each.parent in (ROOT, *found)]
    return found


def _call(*words: str) -> str:
    return " ".join(shlex.quote(word) for word in words)


def _amounts(option: str, amounts: Amounts, tres: Sequence[str]) -> str:
    """Every resource, so that a limit which left the settings is taken away."""
    return f"{option}={','.join(f'{name}={amounts.get(name, -1)}' for name in tres)}"


def _number(option: str, value: int | str | None) -> str:
    return f"{option}={-1 if value is None else value}"


def _limits(limits: LimitSettings, tres: Sequence[str]) -> list[str]:
    return [
        f"Fairshare={limits.fairshare}",
        _amounts("GrpTRES", limits.grp_tres, tres),
        _amounts("GrpTRESMins", limits.grp_tres_mins, tres),
        _amounts("MaxTRESPerJob", limits.max_tres_per_job, tres),
        _number("GrpJobs", limits.grp_jobs),
        _number("MaxJobs", limits.max_jobs),
        _number("MaxSubmitJobs", limits.max_submit_jobs),
        _number("MaxWall", limits.max_wall),
    ]


def _qos(qos: QosSettings, tres: Sequence[str]) -> list[str]:
    return [
        *([f"Description={qos.description}"] if qos.description else []),
        f"Priority={qos.priority}",
        f"Preempt={','.join(qos.preempt)}",
        f"PreemptMode={qos.preempt_mode}",
        f"GraceTime={qos.grace_time}",
        f"Flags={','.join(qos.flags) or -1}",
        f"UsageFactor={qos.usage_factor}",
        _amounts("GrpTRES", qos.grp_tres, tres),
        _amounts("MaxTRESPerUser", qos.max_tres_per_user, tres),
        _amounts("MaxTRESPerJob", qos.max_tres_per_job, tres),
        _amounts("MinTRESPerJob", qos.min_tres_per_job, tres),
        _number("GrpJobs", qos.grp_jobs),
        _number("MaxJobsPerUser", qos.max_jobs_per_user),
        _number("MaxSubmitJobsPerUser", qos.max_submit_jobs_per_user),
        _number("MaxWall", qos.max_wall),
    ]


def deployment(
    *, image: str, pod: Mapping[str, Any], key: Mapping[str, str], scripts: Mapping[str, str]
) -> dict[str, Any]:
    """The spec of the Deployment; other scripts are another pod, and it is ready once they have been applied.

    `pod` are fields of its pod's spec, `key` the Secret and its key with the key of auth/slurm.
    """
    labels = {"app.kubernetes.io/name": "sacctmgr", "app.kubernetes.io/instance": NAME}
    digest = hashlib.sha256(repr(sorted(scripts.items())).encode()).hexdigest()
    slurm_key = {"secretName": key["name"], "items": [{"key": key["key"], "path": "slurm.key"}], "defaultMode": 0o600}
    return {
        "replicas": 1,
        # Two at once would undo each other's work.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": {"crusoe-gpu-platform/scripts": digest}},
            "spec": {
                **pod,
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 5,
                "containers": [
                    {
                        "name": "sacctmgr",
                        "image": image,
                        "command": ["/bin/bash", f"{FOLDER}/run"],
                        "readinessProbe": {
                            "exec": {"command": ["test", "-e", f"{STATE}/applied"]},
                            "periodSeconds": 2,
                        },
                        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
                        "volumeMounts": [
                            {"name": "scripts", "mountPath": FOLDER, "readOnly": True},
                            {"name": "slurm-key", "mountPath": "/etc/slurm", "readOnly": True},
                            {"name": "run", "mountPath": "/run/slurm"},
                            {"name": "state", "mountPath": STATE},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "scripts", "configMap": {"name": NAME}},
                    {"name": "slurm-key", "secret": slurm_key},
                    {"name": "run", "emptyDir": {}},
                    {"name": "state", "emptyDir": {}},
                ],
            },
        },
    }


_RUN = """\
# Looks again and again; sackd says to the database who asks.
trap 'kill $daemon; exit' TERM
sackd -D --conf-server {server} &
daemon=$!
while kill -0 $daemon 2>/dev/null; do
  if bash {folder}/apply; then touch {state}/applied; pause={look}; else rm -f {state}/applied; pause={again}; fi
  sleep $pause &
  wait $!
done
echo 'sackd has ended'
exit 1
"""

_APPLY = """\
# Makes accounts, QOS and limits in Slurm's database those of the settings, and says what that changed. Ends with 0 when
# they are.
set -u -o pipefail
cluster={cluster} dir={state} failed= asked=()
mkdir -p $dir
show() {{ sacctmgr --noheader --parsable2 show "$@"; }}
state() {{
  show qos format=Name,Description,Priority,Preempt,PreemptMode,GraceTime,Flags,UsageFactor,GrpTRES,MaxTRESPU,MaxTRES,\\
MinTRES,GrpJobs,MaxJobsPU,MaxSubmitPU,MaxWall | sed 's/^/qos /' &&
    show account format=Account,Description | sed 's/^/account /' &&
    show user format=User,DefaultAccount | sed 's/^/user /' &&
    show assoc where cluster=$cluster format=Account,User,ParentName,Fairshare,GrpTRES,GrpTRESMins,MaxTRES,GrpJobs,\\
MaxJobs,MaxSubmit,MaxWall,QOS,DefaultQOS | sed 's/^/limits /'
}}
run() {{
  local said
  said=$(sacctmgr --immediate "$@" 2>&1) || {{ echo "failed: sacctmgr $*: $said"; failed=yes; }}
}}

if [ -z "$(show cluster where cluster=$cluster format=Cluster 2>/dev/null)" ]; then
  echo "cluster $cluster is not in the database yet"
  exit 1
fi
before=$(state | sort) || exit
[ "$before" != "$(cat $dir/state 2>/dev/null)" ] || exit 0
present=$(show qos format=Name) || exit
tree=$(show assoc where cluster=$cluster format=Account,User,ParentName) || exit

qos() {{
  asked+=("qos $1")
  grep -qxF -- "$1" <<< "$present" || run add qos "$1"
}}
qos_limits() {{ run modify qos where name="$1" set "${{@:2}}"; }}
account() {{
  asked+=("account $1")
  local parent
  parent=$(awk -F'|' -v name="$1" '$1 == name && $2 == "" {{ print $3 }}' <<< "$tree")
  if [ -z "$parent" ]; then
    run add account "$1" cluster=$cluster parent="$2"
  elif [ "$parent" != "$2" ]; then
    run modify account where name="$1" cluster=$cluster set parent="$2"
  fi
  run modify account where name="$1" set description="$3"
}}
account_limits() {{ run modify account where name="$1" cluster=$cluster set "${{@:2}}"; }}
member() {{
  asked+=("member $1 $2" "user $2")
  grep -qF -- "$1|$2|" <<< "$tree" || run add user "$2" account="$1" cluster=$cluster
  run modify user where name="$2" account="$1" cluster=$cluster set "${{@:3}}"
}}
default_account() {{ run modify user where name="$1" cluster=$cluster set defaultaccount="$2"; }}

{wanted}

# What is there and not in the settings: members first, since an account with members can't go.
there() {{
  show assoc where cluster=$cluster format=Account,User | awk -F'|' '$2 != "" {{ print "member " $1 " " $2 }}'
  show user format=User | sed 's/^/user /'
  show account format=Account | sed 's/^/account /'
  show qos format=Name | sed 's/^/qos /'
}}
known() {{ printf '%s\\n' "${{asked[@]-}}" 'member root root' 'user root' 'account root' 'qos normal'; }}
there | grep -vxFf <(known) | while read -r kind name user; do
  echo "not in the settings: $kind $name${{user:+ $user}}"
  [ {delete} = 1 ] || continue
  case $kind in
    member) run delete user where name="$user" account="$name" cluster=$cluster ;;
    # A user whose last account this was has gone with it.
    user) [ -z "$(show user where name="$name" format=User)" ] || run delete user where name="$name" ;;
    *) run delete "$kind" where name="$name" ;;
  esac
  echo "$failed" > $dir/failed
done
[ -z "$(cat $dir/failed 2>/dev/null)" ] || failed=yes
rm -f $dir/failed

after=$(state | sort) || exit
comm -13 <(echo "$before") <(echo "$after") | sed 's/^/changed: /'
if [ -n "$failed" ]; then exit 1; fi
echo "$after" > $dir/state
echo 'accounts are those of the settings'
"""
