"""The kinds of objects that Slinky's programs read and write, and where the API server keeps them."""

from __future__ import annotations

from collections.abc import Mapping

from localcloud.kubernetes.api_server import NODES, PODS, Kind

GROUP = "slinky.slurm.net"
SLINKY = f"{GROUP}/v1beta1"
CERT_MANAGER = "cert-manager.io/v1"
MARIADB = "k8s.mariadb.com/v1alpha1"

CONFIG_MAPS = Kind("v1", "configmaps", namespaced=True)
SECRETS = Kind("v1", "secrets", namespaced=True)
SERVICES = Kind("v1", "services", namespaced=True)
EVENTS = Kind("v1", "events", namespaced=True)
CLAIMS = Kind("v1", "persistentvolumeclaims", namespaced=True)
DEPLOYMENTS = Kind("apps/v1", "deployments", namespaced=True)
STATEFUL_SETS = Kind("apps/v1", "statefulsets", namespaced=True)
BUDGETS = Kind("policy/v1", "poddisruptionbudgets", namespaced=True)
DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
VALIDATING = Kind("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False)
MUTATING = Kind("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", namespaced=False)

CONTROLLERS = Kind(SLINKY, "controllers", namespaced=True)
ACCOUNTINGS = Kind(SLINKY, "accountings", namespaced=True)
REST_APIS = Kind(SLINKY, "restapis", namespaced=True)
LOGIN_SETS = Kind(SLINKY, "loginsets", namespaced=True)
NODE_SETS = Kind(SLINKY, "nodesets", namespaced=True)
TOKENS = Kind(SLINKY, "tokens", namespaced=True)
CERTIFICATES = Kind(CERT_MANAGER, "certificates", namespaced=True)
ISSUERS = Kind(CERT_MANAGER, "issuers", namespaced=True)
MARIADBS = Kind(MARIADB, "mariadbs", namespaced=True)

KINDS: Mapping[str, Kind] = {
    "ConfigMap": CONFIG_MAPS,
    "Secret": SECRETS,
    "Service": SERVICES,
    "Deployment": DEPLOYMENTS,
    "StatefulSet": STATEFUL_SETS,
    "PodDisruptionBudget": BUDGETS,
    "Pod": PODS,
    "Node": NODES,
    "PersistentVolumeClaim": CLAIMS,
    "Controller": CONTROLLERS,
    "Accounting": ACCOUNTINGS,
    "RestApi": REST_APIS,
    "LoginSet": LOGIN_SETS,
    "NodeSet": NODE_SETS,
    "Token": TOKENS,
    "Certificate": CERTIFICATES,
    "MariaDB": MARIADBS,
}
"""By the name of the kind: no two groups here share one."""
