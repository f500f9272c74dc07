"""The five dashboards: overview, training, sharing, repairs, network."""

from components.observability.panels import Dashboard, Panel, Query

_OPEN = 'gpuplatform_repair_state{state=~"detected|notified|draining|replacing|stuck"}'
_JOBS = "max by (job_id)"
_USED = "gpuplatform_share_used_gpus"
_SHORT = f"({_USED} < gpuplatform_share_floor_gpus) and ({_USED} < gpuplatform_share_wanted_gpus)"
_LOST = "gpuplatform_recovery_steps_lost"
_DEVICES = '{device!~"lo|veth.*|cali.*|cni.*|lxc.*"}'
_STAGE = "max by (stage) (gpuplatform_recovery_last_seconds)"


def _network(series: str, legend: str) -> Query:
    return Query(f"sum by (instance) (rate({series}[5m]))", legend)


def _ports(title: str, description: str, metric: str) -> Panel:
    expr = f"sum by (instance, device, port) (increase({metric}[1h]))"
    return Panel(title, description, "timeseries", "short", [Query(expr, "{{instance}} {{device}}/{{port}}")])


OVERVIEW = Dashboard(
    "overview",
    "GPU platform: overview",
    "What there is, what works, and what calls for somebody.",
    [
        Panel(
            "Alerts that page",
            "Alerts that wake somebody, now.",
            "stat",
            "short",
            [Query('count(ALERTS{alertstate="firing", severity="page"}) or vector(0)')],
            4,
        ),
        Panel(
            "Alerts for working hours",
            "Alerts that can wait until morning.",
            "stat",
            "short",
            [Query('count(ALERTS{alertstate="firing", severity="ticket"}) or vector(0)')],
            4,
        ),
        Panel(
            "GPUs",
            "GPUs that Kubernetes offers, of all nodes.",
            "stat",
            "short",
            [Query('sum(gpuplatform_node_gpus{view="kubernetes"})')],
            4,
        ),
        Panel(
            "Repairs now",
            "Repairs that AutoClusters is at.",
            "stat",
            "short",
            [Query(f"count({_OPEN}) or vector(0)")],
            4,
        ),
        Panel("Jobs running", "Slurm's running jobs.", "stat", "short", [Query("sum(slurm_jobs_running)")], 4),
        Panel("Jobs pending", "Slurm's pending jobs.", "stat", "short", [Query("sum(slurm_jobs_pending)")], 4),
        Panel(
            "Nodes of each pool",
            "Nodes that a pool is to have, that run, and that take work.",
            "timeseries",
            "short",
            [
                Query("gpuplatform_pool_nodes_wanted", "{{pool}} wanted"),
                Query("gpuplatform_pool_nodes_running", "{{pool}} running"),
                Query("gpuplatform_pool_nodes_ready", "{{pool}} ready"),
            ],
        ),
        Panel(
            "Spare hosts",
            "Free hosts that a repair could take, for each pool.",
            "timeseries",
            "short",
            [Query("gpuplatform_pool_spare_hosts", "{{pool}}")],
        ),
        Panel(
            "GPU use",
            "Mean use of a node's GPUs, of either vendor.",
            "timeseries",
            "percent",
            [
                Query("avg by (node) (DCGM_FI_DEV_GPU_UTIL)", "{{node}}"),
                Query("avg by (node) (gpu_gfx_activity)", "{{node}}"),
            ],
        ),
        Panel(
            "Quotas",
            "Used part of the project's quotas.",
            "timeseries",
            "percentunit",
            [Query("gpuplatform_quota_used / (gpuplatform_quota_limit > 0)", "{{quota}}")],
        ),
        Panel(
            "Age of what is known",
            "Seconds since the exporter could read each source. An old one means that nothing is known, not that "
            "all is well.",
            "timeseries",
            "s",
            [Query("time() - gpuplatform_source_last_success_timestamp_seconds", "{{source}}")],
        ),
        Panel(
            "Firing alerts",
            "All alerts that fire now.",
            "table",
            "none",
            [Query('max by (alertname, severity, node, pool) (ALERTS{alertstate="firing", severity!="heartbeat"})')],
            quiet="no alert fires",
        ),
    ],
)

TRAINING = Dashboard(
    "training",
    "GPU platform: training",
    "Jobs, their GPUs, checkpoints and restarts.",
    [
        Panel(
            "Slurm's nodes",
            "Slurm's nodes by state.",
            "timeseries",
            "short",
            [
                Query("sum(slurm_nodes_alloc)", "allocated"),
                Query("sum(slurm_nodes_idle)", "idle"),
                Query("sum(slurm_nodes_drain)", "drained"),
                Query("sum(slurm_nodes_down)", "down"),
            ],
        ),
        Panel(
            "Jobs",
            "Jobs by state.",
            "timeseries",
            "short",
            [Query("sum by (state) (gpuplatform_slurm_jobs)", "{{state}}")],
        ),
        Panel(
            "Steps",
            "The last step that each job told.",
            "timeseries",
            "short",
            [Query(f"{_JOBS} (gpuplatform_job_step)", "job {{job_id}}")],
        ),
        Panel(
            "Age of checkpoints",
            "Seconds since the last whole checkpoint of each running job: what a failure would cost.",
            "timeseries",
            "s",
            [Query(f"time() - {_JOBS} (gpuplatform_job_checkpoint_timestamp_seconds)", "job {{job_id}}")],
        ),
        Panel(
            "Restarts",
            "How often each job was started again, by reason.",
            "timeseries",
            "short",
            [Query("sum by (job_id, reason) (gpuplatform_job_requeues_total)", "job {{job_id}}: {{reason}}")],
        ),
        Panel(
            "Effective training time of all",
            "Part of all running jobs' node time that made steps which were kept.",
            "timeseries",
            "percentunit",
            [Query("sum(gpuplatform_job_useful_node_seconds) / sum(gpuplatform_job_allocated_node_seconds)")],
        ),
        Panel(
            "Effective training time",
            "Part of a job's node time that made steps which were kept.",
            "timeseries",
            "percentunit",
            [Query(f"{_JOBS} (gpuplatform_effective_training_time_ratio)", "job {{job_id}}")],
        ),
        Panel(
            "GPU temperature",
            "Hottest GPU of each node.",
            "timeseries",
            "celsius",
            [Query("max by (node) (DCGM_FI_DEV_GPU_TEMP)", "{{node}}")],
        ),
        Panel(
            "GPU power",
            "Power of each node's GPUs together.",
            "timeseries",
            "watt",
            [Query("sum by (node) (DCGM_FI_DEV_POWER_USAGE)", "{{node}}")],
        ),
        Panel(
            "Held jobs",
            "Jobs that do not start by themselves, and why.",
            "table",
            "none",
            [Query("max by (job_id, reason) (gpuplatform_job_held)")],
            quiet="none seen",
        ),
        Panel(
            "Jobs that wait for nodes",
            "Nodes that pending jobs wait for.",
            "table",
            "short",
            [Query("max by (job_id, partition) (gpuplatform_job_pending_for_nodes)")],
            quiet="none seen",
        ),
    ],
)

SHARING = Dashboard(
    "sharing",
    "GPU platform: sharing",
    "Who holds which GPUs, who was promised what, and what is lent.",
    [
        Panel(
            "Floors that are not met",
            "Shares that have less than promised and want more.",
            "stat",
            "short",
            [Query(f"count({_SHORT}) or vector(0)")],
            6,
        ),
        Panel("Nodes lent", "Nodes that are lent now.", "stat", "short", [Query("sum(gpuplatform_borrowed_nodes)")], 6),
        Panel(
            "GPUs held",
            "GPUs that each share holds.",
            "timeseries",
            "short",
            [Query("sum by (pool, share) (gpuplatform_share_used_gpus)", "{{pool}} {{share}}")],
        ),
        Panel(
            "GPUs promised",
            "Floor of each share.",
            "timeseries",
            "short",
            [Query("sum by (pool, share) (gpuplatform_share_floor_gpus)", "{{pool}} {{share}}")],
        ),
        Panel(
            "GPUs wanted",
            "What each share asks for, held or not.",
            "timeseries",
            "short",
            [Query("sum by (pool, share) (gpuplatform_share_wanted_gpus)", "{{pool}} {{share}}")],
        ),
        Panel(
            "GPUs borrowed",
            "GPUs that a share holds beyond its floor.",
            "timeseries",
            "short",
            [Query("sum by (pool, share) (gpuplatform_share_borrowed_gpus)", "{{pool}} {{share}}")],
        ),
    ],
)

REPAIRS = Dashboard(
    "repairs",
    "GPU platform: repairs",
    "What AutoClusters does, how long it takes, and what it costs.",
    [
        Panel(
            "Repairs now",
            "Repairs that AutoClusters is at.",
            "stat",
            "short",
            [Query(f"count({_OPEN}) or vector(0)")],
            6,
        ),
        Panel(
            "Repairs in a day",
            "Repairs that began within 24 hours.",
            "stat",
            "short",
            [Query("count(time() - gpuplatform_repair_start_timestamp_seconds < 86400) or vector(0)")],
            6,
        ),
        Panel(
            "Failed in a day",
            "Repairs that failed within 24 hours.",
            "stat",
            "short",
            [Query('count(gpuplatform_repair_state{state="failed"}) or vector(0)')],
            6,
        ),
        Panel(
            "Nodes out",
            "Slurm's nodes that are drained, by whoever took them out.",
            "stat",
            "short",
            [Query("count by (owner) (gpuplatform_slurm_node_drained)", "{{owner}}")],
            6,
        ),
        Panel(
            "Time line",
            "State of each node's repair.",
            "state-timeline",
            "none",
            [Query("max by (node, state) (gpuplatform_repair_state)", "{{node}} {{state}}")],
            24,
        ),
        Panel(
            "Last recovery by stage",
            "Seconds of each stage of the latest recovery.",
            "stat",
            "s",
            [Query(_STAGE, "{{stage}}")],
            24,
        ),
        Panel(
            "Recovery, nine of ten",
            "Within this time nine of ten of all known recoveries had passed the stage.",
            "timeseries",
            "s",
            [
                Query(
                    "histogram_quantile(0.9, sum by (le, stage) (gpuplatform_recovery_seconds_bucket))",
                    "{{stage}}",
                )
            ],
        ),
        Panel(
            "Steps lost",
            "Mean of the steps that a recovery lost.",
            "timeseries",
            "short",
            [
                Query(
                    f"sum by (pool) ({_LOST}_sum) / sum by (pool) ({_LOST}_count)",
                    "{{pool}}",
                )
            ],
        ),
        Panel(
            "Repairs by issue",
            "All repairs of the history, by issue and outcome.",
            "timeseries",
            "short",
            [Query("sum by (issue, outcome) (gpuplatform_repairs_total)", "{{issue}} {{outcome}}")],
        ),
        Panel(
            "XID errors",
            "New XID errors within an hour, by node and code.",
            "timeseries",
            "short",
            [Query("sum by (node, xid) (sum_over_time(gpuplatform:xid_new[1h]))", "{{node}}: {{xid}}")],
            quiet="none seen",
        ),
        Panel(
            "GPUs by who counts",
            "GPUs of the VM types, of Kubernetes and of Slurm: they should agree.",
            "timeseries",
            "short",
            [Query("sum by (view) (gpuplatform_node_gpus)", "{{view}}")],
            24,
        ),
    ],
)

NETWORK = Dashboard(
    "network",
    "GPU platform: network",
    "InfiniBand and Ethernet of the nodes.",
    [
        Panel(
            "InfiniBand in",
            "Received by each node over InfiniBand.",
            "timeseries",
            "Bps",
            [_network("node_infiniband_port_data_received_bytes_total", "{{instance}}")],
        ),
        Panel(
            "InfiniBand out",
            "Sent by each node over InfiniBand.",
            "timeseries",
            "Bps",
            [_network("node_infiniband_port_data_transmitted_bytes_total", "{{instance}}")],
        ),
        _ports(
            "Links that went down", "Ports that lost their link within an hour.", "node_infiniband_link_downed_total"
        ),
        _ports(
            "Links that recovered",
            "Ports that recovered from errors within an hour.",
            "node_infiniband_link_error_recovery_total",
        ),
        _ports(
            "Symbol errors",
            "Symbol errors within an hour: a cable or transceiver that is going.",
            "node_infiniband_symbol_error_total",
        ),
        Panel(
            "Ethernet in",
            "Received by each node, without its own pods' devices.",
            "timeseries",
            "Bps",
            [_network(f"node_network_receive_bytes_total{_DEVICES}", "{{instance}}")],
        ),
        Panel(
            "Ethernet out",
            "Sent by each node, without its own pods' devices.",
            "timeseries",
            "Bps",
            [_network(f"node_network_transmit_bytes_total{_DEVICES}", "{{instance}}")],
        ),
    ],
)

DASHBOARDS = (OVERVIEW, TRAINING, SHARING, REPAIRS, NETWORK)
