"""Slurm on the local cloud: real daemons for the pods of Slurm, and for those of Kueue.

A kubelet's work for pods labelled `app.kubernetes.io/name` in `plan.DAEMONS`, in each cluster from outside of it. Each
pod is a set of Linux namespaces with its hostname and address, in which its containers' programs run from the folder of
`tools.slurm_root`: real slurmctld, slurmd, slurmrestd, slurmdbd, MariaDB, sshd, and the platform's actor and exporter.
Kueue's manager and Alertmanager are pinned tools. They talk to each other and to the API server as in a cluster, and
the Pod API is all that this package knows of whoever made them.

* `kubelet`    the loop of one cluster: which pods to start, end, kill and report
* `plan`       a pod in, what is to run out: pure
* `images`     what the images' entrypoints would do: pure
* `overrides`  what is changed in Slurm's configuration, and why: pure
* `volumes`, `etc`, `names`   files that a pod finds: its volumes, /etc, the names of others
* `tokens`, `api_door`   what a pod needs to speak to the API server: its token, and an address that answers;
                         the local cloud's API has one too, for pods that ask it
* `status`     what the pod's processes report, as a pod's status: pure
* `lab`        the namespaces: made, entered, ended
* `inside`     what runs in them, and goes on when the local cloud is killed
* `reach`      from this machine into the pods: slurmrestd's socket, connections
* `streams`, `websocket`   a kubelet's server: `kubectl exec` and `kubectl logs`
"""
