"""The programs that the platform stands on, and what runs out: certificates and keys."""

from components.observability.rules import Alert, Limits, Need

_SLINKY: frozenset[Need] = frozenset({"slinky"})


def _deployment(namespace: str, name: str) -> str:
    return f'kube_deployment_status_replicas_available{{namespace="{namespace}", deployment="{name}"}} == 0'


def alerts(limits: Limits) -> list[Alert]:
    """Alerts about programs."""
    soon = limits.expiry_days * 86400
    return [
        Alert(
            "SlurmControllerDown",
            'max(up{job="slurmctld"}) == 0 or '
            'max(kube_statefulset_status_replicas_ready{namespace="slurm", statefulset=~".+-controller"}) == 0',
            "5m",
            "page",
            "Slurm's controller has not answered for 5 minutes: no job starts, and none is requeued.",
            "slurmctld is down or can't be reached. Running jobs go on.",
            "`kubectl -n slurm get pods`, and the log of the controller's pod.",
            "docs/troubleshooting.md; if its volume is lost, docs/runbooks/backup-slurm-state.md.",
            _SLINKY,
        ),
        Alert(
            "SlurmWebhookDown",
            _deployment("slinky", "slurm-operator-webhook"),
            "5m",
            "ticket",
            "The webhook of Slurm's operator is down: nothing of Slurm can be changed.",
            "Until it answers, every change of Slurm's objects is refused. Jobs run on.",
            "`kubectl -n slinky get pods`, and its certificate.",
            "Have its pods start; docs/troubleshooting.md, what the webhook says.",
            _SLINKY,
        ),
        Alert(
            "SlurmOperatorDown",
            _deployment("slinky", "slurm-operator"),
            "5m",
            "ticket",
            "Slurm's operator is down: workers are neither made nor replaced.",
            "Jobs run on; a replaced node gets no worker until the operator is back.",
            "`kubectl -n slinky get pods`.",
            "Have its pods start.",
            _SLINKY,
        ),
        Alert(
            "SlurmActorDown",
            _deployment("slurm", "slurm-actor"),
            "5m",
            "ticket",
            "The actor is down: the jobs of a node that fails now are not requeued.",
            "A cordon only drains; without the actor a job stays on its broken node (docs/node-failure.md).",
            "`kubectl -n slurm get pods -l app.kubernetes.io/name=slurm-actor`, and their log.",
            "Have its pods start.",
            _SLINKY,
        ),
        Alert(
            "CertificateNearExpiry",
            "certmanager_certificate_expiration_timestamp_seconds - time() < 604800",
            "1h",
            "ticket",
            "Certificate {{ $labels.name }} in {{ $labels.exported_namespace }} ends in "
            "{{ $value | humanizeDuration }} and was not renewed.",
            "cert-manager renews long before; so it can't. With the webhook's certificate ends every change of Slurm.",
            "`kubectl describe certificate` in that namespace, and cert-manager's log.",
            "Mend what the certificate's condition names.",
            _SLINKY,
        ),
        Alert(
            "KeyRefused",
            "gpuplatform_credential_accepted == 0",
            "5m",
            "ticket",
            "The exporter's {{ $labels.credential }} is refused: it has ended, was revoked, or is another's.",
            "Nothing is known any more of what is read with it.",
            "The exporter's log, and the key in Crusoe's console.",
            "docs/runbooks/rotate-keys.md.",
            frozenset({"exporter"}),
        ),
        Alert(
            "KeyNearExpiry",
            f'gpuplatform_credential_expiry_timestamp_seconds{{credential="crusoe-api-key"}} - time() < {soon}',
            "0s",
            "ticket",
            "The exporter's read-only key {{ $labels.credential }} ends in {{ $value | humanizeDuration }}.",
            f"Less than {limits.expiry_days} days are left. Without the key nobody sees repairs.",
            "The key in Crusoe's console.",
            "docs/runbooks/rotate-keys.md.",
            frozenset({"exporter"}),
        ),
    ]
