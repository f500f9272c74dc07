"""What Crusoe's controllers do in a CMK cluster: volumes and load balancers, played from the local cloud.

Two actors per cluster look at its API server, compare with the cloud's inventory and do what is missing on either side.
Nothing is kept in memory that could not be read again, so a restart or a `kill -9` is only a pause; with the cluster
they end, and what they had made in the inventory stays, as in the real cloud.

* `objects`         the kinds, quantities and events that the others share
* `csi`             claims and classes in, disks and volumes out: pure functions
* `attachments`     which disk may be attached to which VM
* `volumes`         the CSI drivers: provision, attach, detach, grow, delete
* `services`        Services in, listeners and firewall rules out: pure functions
* `load_balancers`  Services of type LoadBalancer: address, firewall rule, listeners
* `forwarder`       the listeners, and passing connections on to pods

Pods have no network of their own here. Whoever gives them one sets `Cloud.dialer`; see `localcloud.dialing`.
"""
