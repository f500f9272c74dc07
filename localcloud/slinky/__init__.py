"""Slinky on the local cloud: what the Slurm operator and its neighbours do in a cluster, played from outside of it.

In each cluster whose Deployments say so (`slinky/slurm-operator`, `slinky/slurm-operator-webhook`, `cert-manager/...`,
`mariadb-operator/...`), this package does the work of those programs through the cluster's API server. It is written
from Slinky 1.2.1's documented and observed behaviour, and shares no text with it. The pods that it makes are run by
whoever plays the kubelets (`localcloud.slurm`); the Pod API is all that the two have in common.

* `actor`       the loop of one cluster: whoever's Deployment has an available pod does its work
* `operator`    the Slurm operator's look at everything; `workers` is its sync of one NodeSet
* `decisions`, `placement`   which workers to make, cordon, release and delete: pure
* `children`, `pods`, `worker`, `merge`, `sshd`   what the operator makes: pure
* `conf`        slurm.conf, cgroup.conf and slurmdbd.conf: pure text
* `tokens`, `rest`   JSON web tokens, and what is asked of slurmrestd
* `admission`, `shapes`   what the webhook refuses: pure; `webhook` serves it to the API server
* `certificates`, `mariadb`   cert-manager and the MariaDB operator, as far as Slinky needs them
* `objects`, `values`, `kinds`   writing objects and events, reading JSON, where each kind lives

Not played: reservations of ScheduledUpdate (such a NodeSet is updated by nobody, as with OnDelete), `pinToNode`,
`minReadySeconds`, the deadline annotation by running jobs, ServiceMonitors, leader election, slurm-bridge. Where a
NodeSet was cordoned by the operator itself, the pod carries one more annotation (`local.crusoe.ai/pod-cordon-cause`).

Pods, as the kubelet sees them
------------------------------
All carry `app.kubernetes.io/name` (below) and `app.kubernetes.io/instance` (the custom resource's name). Containers
have an image and no `command`: the image's entrypoint is the daemon of the container's name, and `args` are the
arguments it gets. Files of /etc/slurm come from one projected volume `slurm-etc` of ConfigMaps and Secrets, with mode
0600 and owner by the pod's `securityContext.fsGroup`. /run, /var/log/slurm and spool folders are emptyDirs.

* slurmctld: pod `<n>-controller-0` of StatefulSet `<n>-controller`; container `slurmctld`, args `-D`, port 6817;
  sidecars `logfile` and, where asked for, `reconfigure`. /etc/slurm = ConfigMap `<n>-config` (slurm.conf, cgroup.conf),
  the user's ConfigMaps, `slurm.key` and `jwt.key`; claim template `statesave` at /var/spool/slurmctld.
* slurmdbd: pod `<n>-accounting-0` of StatefulSet `<n>-accounting`; container `slurmdbd`, args `-D`, port 6819.
  /etc/slurm = Secret `<n>-accounting` (slurmdbd.conf) and the two keys.
* slurmrestd: pods of Deployment `<n>-restapi`; container `slurmrestd`, args `0.0.0.0:6820`, env SLURM_JWT=daemon, uid
  65534. /etc/slurm = ConfigMap `<controller>-config` and the two keys.
* slurmd: pods `<nodeset>-<number>` of the NodeSet itself; container `slurmd`, args `-D -Z --conf-server
  <c>-controller.<namespace>:6817 --conf "Features=<nodeset> <extraConf>"` (one argument after --conf), env POD_CPUS and
  POD_MEMORY (MiB) where there are limits, POD_TOPOLOGY from the pod's annotation; sidecar `logfile`; `spec.hostname` =
  the Slurm node's name; privileged; an exec preStop that marks the node down; grace period 30 s unless the template
  says otherwise. /etc/slurm = `slurm.key` only (configless).
* login: pods of Deployment `<n>`; container `login`, no args, port 22, env SACKD_OPTIONS=`--conf-server
  <c>-controller.<namespace>:6817`, after init container `initconf`. /etc/slurm = `slurm.key`; /etc/ssh/sshd_config and
  /root/.ssh/authorized_keys from ConfigMap `<n>-ssh-config`, /etc/ssh/ssh_host_<type>_key from Secret
  `<n>-ssh-host-keys`, /etc/sssd/sssd.conf from the user's Secret.
* mariadb: pod `<n>-0` of StatefulSet `<n>`; container `mariadb`, no args, port 3306, env MARIADB_ROOT_PASSWORD,
  MARIADB_DATABASE, MARIADB_USER, MARIADB_PASSWORD. Claim template `storage` at /var/lib/mysql;
  /etc/mysql/conf.d/0-my.cnf from ConfigMap `<n>-config`.

The Services are `<n>-controller`, `<n>-accounting`, `<n>-restapi`, `<n>` (login, mariadb) and the headless
`slurm-workers-<c>`, which is the workers' subdomain.

Workers are not placed by hand: the scheduler binds them, as any pod.
"""
