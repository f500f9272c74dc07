"""The shape of pods and containers (core/v1 of Kubernetes 1.36), as far as workloads set them."""

from __future__ import annotations

from crusoe.rules.manifest import (
    FLAG,
    LABELS,
    PORT,
    QUANTITY,
    TEXT,
    TEXTS,
    WHOLE,
    Anything,
    Fields,
    ListOf,
    MapOf,
    Text,
    Whole,
)

SELECTOR = Fields(
    {
        "matchLabels": LABELS,
        "matchExpressions": ListOf(
            Fields(
                {"key": TEXT, "operator": Text(("In", "NotIn", "Exists", "DoesNotExist")), "values": TEXTS},
                ("key", "operator"),
            )
        ),
    }
)
_REFERENCE = Fields({"name": TEXT, "optional": FLAG})
_KEY = Fields({"name": TEXT, "key": TEXT, "optional": FLAG}, ("key",))
_FIELD = Fields({"apiVersion": TEXT, "fieldPath": TEXT}, ("fieldPath",))
_RESOURCE_FIELD = Fields({"containerName": TEXT, "resource": TEXT, "divisor": QUANTITY}, ("resource",))
_ENV = Fields(
    {
        "name": TEXT,
        "value": TEXT,
        "valueFrom": Fields(
            {"configMapKeyRef": _KEY, "secretKeyRef": _KEY, "fieldRef": _FIELD, "resourceFieldRef": _RESOURCE_FIELD}
        ),
    },
    ("name",),
)
_HTTP = Fields(
    {
        "host": TEXT,
        "path": TEXT,
        "port": PORT,
        "scheme": TEXT,
        "httpHeaders": ListOf(Fields({"name": TEXT, "value": TEXT}, ("name", "value"))),
    },
    ("port",),
)
_EXEC = Fields({"command": TEXTS})
_TCP = Fields({"host": TEXT, "port": PORT}, ("port",))
_HOOK = Fields({"exec": _EXEC, "httpGet": _HTTP, "tcpSocket": _TCP, "sleep": Fields({"seconds": WHOLE}, ("seconds",))})
_PROBE = Fields(
    {
        "exec": _EXEC,
        "httpGet": _HTTP,
        "tcpSocket": _TCP,
        "grpc": Fields({"port": WHOLE, "service": TEXT}, ("port",)),
        "initialDelaySeconds": Whole(0),
        "timeoutSeconds": Whole(1),
        "periodSeconds": Whole(1),
        "successThreshold": Whole(1),
        "failureThreshold": Whole(1),
        "terminationGracePeriodSeconds": Whole(1),
    }
)
RESOURCES = Fields(
    {
        "limits": MapOf(QUANTITY),
        "requests": MapOf(QUANTITY),
        "claims": ListOf(Fields({"name": TEXT, "request": TEXT}, ("name",))),
    }
)
_SELINUX = Fields({"user": TEXT, "role": TEXT, "type": TEXT, "level": TEXT})
_SECCOMP = Fields({"type": Text(("RuntimeDefault", "Unconfined", "Localhost")), "localhostProfile": TEXT}, ("type",))
_CONTAINER_SECURITY = Fields(
    {
        "allowPrivilegeEscalation": FLAG,
        "appArmorProfile": _SECCOMP,
        "capabilities": Fields({"add": TEXTS, "drop": TEXTS}),
        "privileged": FLAG,
        "procMount": TEXT,
        "readOnlyRootFilesystem": FLAG,
        "runAsGroup": Whole(0),
        "runAsNonRoot": FLAG,
        "runAsUser": Whole(0),
        "seLinuxOptions": _SELINUX,
        "seccompProfile": _SECCOMP,
    }
)
CONTAINER = Fields(
    {
        "name": TEXT,
        "image": TEXT,
        "imagePullPolicy": Text(("Always", "IfNotPresent", "Never")),
        "command": TEXTS,
        "args": TEXTS,
        "workingDir": TEXT,
        "env": ListOf(_ENV, unique="name"),
        "envFrom": ListOf(Fields({"prefix": TEXT, "configMapRef": _REFERENCE, "secretRef": _REFERENCE})),
        "ports": ListOf(
            Fields(
                {
                    "name": TEXT,
                    "containerPort": Whole(1, 65535),
                    "hostPort": Whole(0, 65535),
                    "hostIP": TEXT,
                    "protocol": Text(("TCP", "UDP", "SCTP")),
                },
                ("containerPort",),
            )
        ),
        "resources": RESOURCES,
        "resizePolicy": ListOf(Fields({"resourceName": TEXT, "restartPolicy": TEXT}, ("resourceName",))),
        "restartPolicy": Text(("Always", "OnFailure", "Never")),
        "volumeMounts": ListOf(
            Fields(
                {
                    "name": TEXT,
                    "mountPath": TEXT,
                    "subPath": TEXT,
                    "subPathExpr": TEXT,
                    "readOnly": FLAG,
                    "recursiveReadOnly": TEXT,
                    "mountPropagation": Text(("None", "HostToContainer", "Bidirectional")),
                },
                ("name", "mountPath"),
            ),
            unique="mountPath",
        ),
        "volumeDevices": ListOf(Fields({"name": TEXT, "devicePath": TEXT}, ("name", "devicePath"))),
        "lifecycle": Fields({"postStart": _HOOK, "preStop": _HOOK, "stopSignal": TEXT}),
        "livenessProbe": _PROBE,
        "readinessProbe": _PROBE,
        "startupProbe": _PROBE,
        "securityContext": _CONTAINER_SECURITY,
        "stdin": FLAG,
        "stdinOnce": FLAG,
        "tty": FLAG,
        "terminationMessagePath": TEXT,
        "terminationMessagePolicy": Text(("File", "FallbackToLogsOnError")),
    }
)
_FILES = ListOf(Fields({"key": TEXT, "path": TEXT, "mode": Whole(0, 0o777)}, ("key", "path")))
_CONFIG_MAP = Fields({"name": TEXT, "items": _FILES, "defaultMode": Whole(0, 0o777), "optional": FLAG})
_SECRET = Fields({"secretName": TEXT, "items": _FILES, "defaultMode": Whole(0, 0o777), "optional": FLAG})
_DOWNWARD = ListOf(
    Fields({"path": TEXT, "fieldRef": _FIELD, "resourceFieldRef": _RESOURCE_FIELD, "mode": Whole(0, 0o777)}, ("path",))
)
CLAIM = Fields(
    {
        "accessModes": ListOf(Text(("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"))),
        "resources": Fields({"limits": MapOf(QUANTITY), "requests": MapOf(QUANTITY)}),
        "selector": SELECTOR,
        "storageClassName": TEXT,
        "volumeAttributesClassName": TEXT,
        "volumeMode": Text(("Filesystem", "Block")),
        "volumeName": TEXT,
        "dataSource": Anything(),
        "dataSourceRef": Anything(),
    }
)
METADATA = Fields({"name": TEXT, "labels": LABELS, "annotations": LABELS})
VOLUME = Fields(
    {
        "name": TEXT,
        "configMap": _CONFIG_MAP,
        "csi": Fields(
            {
                "driver": TEXT,
                "fsType": TEXT,
                "readOnly": FLAG,
                "nodePublishSecretRef": _REFERENCE,
                "volumeAttributes": LABELS,
            },
            ("driver",),
        ),
        "downwardAPI": Fields({"items": _DOWNWARD, "defaultMode": Whole(0, 0o777)}),
        "emptyDir": Fields({"medium": Text(("", "Memory", "HugePages")), "sizeLimit": QUANTITY}),
        "ephemeral": Fields({"volumeClaimTemplate": Fields({"metadata": METADATA, "spec": CLAIM}, ("spec",))}),
        "hostPath": Fields({"path": TEXT, "type": TEXT}, ("path",)),
        "image": Fields({"reference": TEXT, "pullPolicy": TEXT}),
        "nfs": Fields({"server": TEXT, "path": TEXT, "readOnly": FLAG}, ("server", "path")),
        "persistentVolumeClaim": Fields({"claimName": TEXT, "readOnly": FLAG}, ("claimName",)),
        "projected": Fields(
            {
                "defaultMode": Whole(0, 0o777),
                "sources": ListOf(
                    Fields(
                        {
                            "configMap": Fields({"name": TEXT, "items": _FILES, "optional": FLAG}),
                            "secret": Fields({"name": TEXT, "items": _FILES, "optional": FLAG}),
                            "downwardAPI": Fields({"items": _DOWNWARD}),
                            "serviceAccountToken": Fields(
                                {"audience": TEXT, "expirationSeconds": Whole(600), "path": TEXT}, ("path",)
                            ),
                        }
                    )
                ),
            }
        ),
        "secret": _SECRET,
    },
    ("name",),
)
TOLERATION = Fields(
    {
        "key": TEXT,
        "operator": Text(("Exists", "Equal", "Lt", "Gt")),
        "value": TEXT,
        "effect": Text(("", "NoSchedule", "PreferNoSchedule", "NoExecute")),
        "tolerationSeconds": WHOLE,
    }
)
_NODE_TERM = Fields(
    {
        name: ListOf(
            Fields(
                {
                    "key": TEXT,
                    "operator": Text(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
                    "values": TEXTS,
                },
                ("key", "operator"),
            )
        )
        for name in ("matchExpressions", "matchFields")
    }
)
_POD_TERM = Fields(
    {
        "labelSelector": SELECTOR,
        "matchLabelKeys": TEXTS,
        "mismatchLabelKeys": TEXTS,
        "namespaceSelector": SELECTOR,
        "namespaces": TEXTS,
        "topologyKey": TEXT,
    },
    ("topologyKey",),
)
_POD_AFFINITY = Fields(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": ListOf(_POD_TERM),
        "preferredDuringSchedulingIgnoredDuringExecution": ListOf(
            Fields({"weight": Whole(1, 100), "podAffinityTerm": _POD_TERM}, ("weight", "podAffinityTerm"))
        ),
    }
)
AFFINITY = Fields(
    {
        "nodeAffinity": Fields(
            {
                "requiredDuringSchedulingIgnoredDuringExecution": Fields(
                    {"nodeSelectorTerms": ListOf(_NODE_TERM)}, ("nodeSelectorTerms",)
                ),
                "preferredDuringSchedulingIgnoredDuringExecution": ListOf(
                    Fields({"weight": Whole(1, 100), "preference": _NODE_TERM}, ("weight", "preference"))
                ),
            }
        ),
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    }
)
POD_SPEC = Fields(
    {
        "activeDeadlineSeconds": Whole(1),
        "affinity": AFFINITY,
        "automountServiceAccountToken": FLAG,
        "containers": ListOf(CONTAINER, unique="name"),
        "dnsConfig": Fields(
            {
                "nameservers": TEXTS,
                "searches": TEXTS,
                "options": ListOf(Fields({"name": TEXT, "value": TEXT})),
            }
        ),
        "dnsPolicy": Text(("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")),
        "enableServiceLinks": FLAG,
        "hostAliases": ListOf(Fields({"ip": TEXT, "hostnames": TEXTS}, ("ip",))),
        "hostIPC": FLAG,
        "hostNetwork": FLAG,
        "hostPID": FLAG,
        "hostUsers": FLAG,
        "hostname": TEXT,
        "imagePullSecrets": ListOf(Fields({"name": TEXT})),
        "initContainers": ListOf(CONTAINER, unique="name"),
        "nodeName": TEXT,
        "nodeSelector": LABELS,
        "os": Fields({"name": TEXT}),
        "overhead": MapOf(QUANTITY),
        "preemptionPolicy": TEXT,
        "priority": WHOLE,
        "priorityClassName": TEXT,
        "readinessGates": ListOf(Fields({"conditionType": TEXT}, ("conditionType",))),
        "resourceClaims": ListOf(
            Fields({"name": TEXT, "resourceClaimName": TEXT, "resourceClaimTemplateName": TEXT}, ("name",))
        ),
        "resources": RESOURCES,
        "restartPolicy": Text(("Always", "OnFailure", "Never")),
        "runtimeClassName": TEXT,
        "schedulerName": TEXT,
        "schedulingGates": ListOf(Fields({"name": TEXT}, ("name",))),
        "securityContext": Fields(
            {
                "appArmorProfile": _SECCOMP,
                "fsGroup": Whole(0),
                "fsGroupChangePolicy": Text(("OnRootMismatch", "Always")),
                "runAsGroup": Whole(0),
                "runAsNonRoot": FLAG,
                "runAsUser": Whole(0),
                "seLinuxChangePolicy": TEXT,
                "seLinuxOptions": _SELINUX,
                "seccompProfile": _SECCOMP,
                "supplementalGroups": ListOf(Whole(0)),
                "supplementalGroupsPolicy": TEXT,
                "sysctls": ListOf(Fields({"name": TEXT, "value": TEXT}, ("name", "value"))),
            }
        ),
        "serviceAccountName": TEXT,
        "setHostnameAsFQDN": FLAG,
        "shareProcessNamespace": FLAG,
        "subdomain": TEXT,
        "terminationGracePeriodSeconds": Whole(0),
        "tolerations": ListOf(TOLERATION),
        "topologySpreadConstraints": ListOf(
            Fields(
                {
                    "labelSelector": SELECTOR,
                    "matchLabelKeys": TEXTS,
                    "maxSkew": Whole(1),
                    "minDomains": Whole(1),
                    "nodeAffinityPolicy": TEXT,
                    "nodeTaintsPolicy": TEXT,
                    "topologyKey": TEXT,
                    "whenUnsatisfiable": Text(("DoNotSchedule", "ScheduleAnyway")),
                },
                ("maxSkew", "topologyKey", "whenUnsatisfiable"),
            )
        ),
        "volumes": ListOf(VOLUME, unique="name"),
    }
)
POD_TEMPLATE = Fields({"metadata": Fields({"labels": LABELS, "annotations": LABELS}), "spec": POD_SPEC})
SERVICE_SPEC = Fields(
    {
        "allocateLoadBalancerNodePorts": FLAG,
        "clusterIP": TEXT,
        "externalTrafficPolicy": Text(("Cluster", "Local")),
        "internalTrafficPolicy": Text(("Cluster", "Local")),
        "ipFamilies": TEXTS,
        "ipFamilyPolicy": TEXT,
        "loadBalancerClass": TEXT,
        "loadBalancerSourceRanges": TEXTS,
        "publishNotReadyAddresses": FLAG,
        "sessionAffinity": Text(("None", "ClientIP")),
        "type": Text(("ClusterIP", "NodePort", "LoadBalancer")),
    }
)
