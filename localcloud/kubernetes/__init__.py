"""Real Kubernetes control planes for the local cloud's CMK clusters, with fake nodes.

Each cluster is one etcd, API server, controller manager and scheduler, plus the kwok controller that plays the
kubelets; `kwokctl` (binary runtime) lays them out and starts them. Everything listens on 127.0.0.1 only. The processes
go on when the local cloud is killed, and come back with their data and certificates when they are started again.

* `control_plane`  the `ControlPlane` implementation: what happens in which order
* `home`           where a cluster's files lie, and the little record kept about it
* `configuration`  cluster settings in, kwokctl configuration out
* `processes`      which processes belong to a cluster, and ending them
* `pki`            the certificates of a control plane and of its users
* `credentials`    kubeconfigs
* `api_server`     a small client for the cluster's API server
* `node_objects`   VM in, Node object out
* `add_ons`        add-on name in, the objects that CMK would have installed out
* `actors`         programs of the cloud that work in a cluster from outside of it, one thread each per cluster
* `egress`         how the API server reaches what seems to run in the cluster
* `black_hole`     the address of a private cluster as seen from outside its VPC

Where this differs from CMK: every cluster runs the one Kubernetes version of the toolchain, whatever version it was
created with (nodes report the pool's version); one control plane process of each kind where CMK runs three; images are
never pulled, so pods turn Running at once; the DaemonSets of the add-ons run on the first 100 nodes of a cluster only.
"""

from localcloud.kubernetes.control_plane import CloudAccess, KwokControlPlane

__all__ = ["CloudAccess", "KwokControlPlane"]
