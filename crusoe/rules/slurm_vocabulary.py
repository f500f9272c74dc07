"""What slurm.conf of Slurm 26.05 understands: each option's name, its kind of value, and the words it may hold.

Slurm refuses an unknown name, but takes most wrong words in silence: `PrivateData=jobs,usrs` hides only the jobs, and a
misspelt item of SchedulerParameters does nothing (both tried with slurmctld 26.05.5). So the words are listed here, as
the manual page slurm.conf(5) of 26.05 has them. An item that ends in `=` takes a value.

Options that Slinky's operator writes, and those that mean nothing where pods are the nodes, have the reason in
`NOT_HERE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Kind = Literal["whole", "switch", "yes", "choice", "list", "time", "text"]


@dataclass(frozen=True, slots=True)
class Known:
    """One option.

    Attributes:
        kind: `whole` number, `switch` (1 or 0), `yes` (YES or NO), one of a `choice`, `list` of items, a `time` as
            Slurm writes it (`7-0`, `1:00:00`), or `text`, which is left to Slurm.
        words: of a choice or a list. A list without words takes any.
        least, most: of a whole number.
    """

    kind: Kind
    words: tuple[str, ...] = ()
    least: int = 0
    most: int = 2**31 - 1


SCHEDULER = """allow_zero_lic assoc_limit_stop batch_sched_delay= bb_array_stage_cnt= bf_allow_magnetic_slot
    bf_busy_nodes bf_continue bf_hetjob_immediate bf_hetjob_prio= bf_interval= bf_job_part_count_reserve= bf_licenses
    bf_max_job_array_resv= bf_max_job_assoc= bf_max_job_part= bf_max_job_start= bf_max_job_test= bf_max_job_user=
    bf_max_job_user_part= bf_max_time= bf_min_age_reserve= bf_min_prio_reserve= bf_node_space_size=
    bf_one_resv_per_job bf_resolution= bf_running_job_reserve bf_topopt_enable bf_topopt_iterations= bf_window=
    bf_window_linear= bf_yield_interval= bf_yield_rpc_cnt= bf_yield_sleep= build_queue_timeout=
    correspond_after_task_cnt= default_queue_depth= defer defer_batch delay_boot= disable_job_shrink
    disable_hetjob_steps enable_hetjob_steps enable_user_top extra_constraints ignore_constraint_validation Ignore_NUMA
    ignore_prefer_validation max_array_tasks= max_rpc_cnt= max_sched_time= max_script_size= max_submit_line_size=
    max_switch_wait= no_backup_scheduling nohold_on_prolog_fail pack_serial_at_end partition_job_depth=
    reduce_completing_frag requeue_delay= requeue_on_resume_failure salloc_wait_nodes sbatch_wait_nodes sched_interval=
    sched_max_job_start= sched_min_interval= spec_cores_first step_retry_count= step_retry_time= time_min_as_soft_limit
    whole_hetjob"""
CONNECTIONS = """conmgr_connect_timeout= conmgr_max_connections= conmgr_quiesce_timeout= conmgr_read_timeout=
    conmgr_threads= conmgr_use_poll conmgr_wait_write_delay= conmgr_write_timeout="""
CONTROLLER = f"""allow_user_triggers cloud_dns {CONNECTIONS} disable_triggers enable_async_reply enable_configless
    enable_expedited_requeue enable_stepmgr idle_on_node_suspend max_dbd_msg_action= max_powered_nodes=
    node_reg_mem_percent= no_quick_restart power_save_interval= power_save_min_interval= reboot_from_controller
    reconfig_on_restart rl_bucket_size= rl_enable rl_log_freq= rl_refill_period= rl_refill_rate= rl_table_size=
    user_resv_delete validate_nodeaddr_threads="""
DEBUG = """Accrue Agent AuditRPCs AuditTLS Backfill BackfillMap BurstBuffer Cgroup ConMgr CPU_Bind CpuFrequency Data
    DBD_Agent Dependency Elasticsearch Energy Federation Gres Hetjob Gang GLOB_SILENCE JobAccountGather JobComp License
    Namespace Metrics Network NetworkRaw NodeFeatures NO_CONF_HASH Power Priority Profile Protocol Reservation Route
    Script SelectType Steps Switch thread TLS TraceJobs Triggers"""
LIMITS = "ALL NONE AS CORE CPU DATA FSIZE MEMLOCK NOFILE NPROC RSS STACK"
LEVELS = "quiet fatal error info verbose debug debug2 debug3 debug4 debug5"

CHOICES = {
    "AcctGatherEnergyType": """acct_gather_energy/gpu acct_gather_energy/ipmi acct_gather_energy/pm_counters
        acct_gather_energy/rapl acct_gather_energy/xcc""",
    "AcctGatherFilesystemType": "acct_gather_filesystem/lustre",
    "AcctGatherInterconnectType": "acct_gather_interconnect/ofed acct_gather_interconnect/sysfs",
    "AcctGatherProfileType": "acct_gather_profile/hdf5 acct_gather_profile/influxdb",
    "CpuFreqDef": "Conservative OnDemand Performance PowerSave",
    "EnforcePartLimits": "ALL ANY NO",
    "HashPlugin": "hash/k12 hash/sha3",
    "JobAcctGatherType": "jobacct_gather/cgroup jobacct_gather/linux",
    "JobCompType": " ".join(f"jobcomp/{each}" for each in ("elasticsearch", "filetxt", "kafka", "lua", "script")),
    "LogTimeFormat": "iso8601 iso8601_ms rfc5424 rfc5424_ms rfc3339 clock short thread_id",
    "MCSPlugin": "mcs/account mcs/group mcs/user mcs/label",
    "MpiDefault": "none pmi2 pmix",
    "NamespaceType": "namespace/linux namespace/tmpfs",
    "PreemptType": "preempt/partition_prio preempt/qos",
    "PriorityType": "priority/basic priority/multifactor",
    "PriorityUsageResetPeriod": "NONE NOW DAILY WEEKLY MONTHLY QUARTERLY YEARLY",
    "ProctrackType": "proctrack/cgroup proctrack/linuxproc proctrack/pgid",
    "PropagatePrioProcess": "0 1 2",
    "ReturnToService": "0 1 2",
    "SchedulerType": "sched/backfill sched/builtin",
    "SelectType": "select/cons_tres select/linear",
    "SlurmSchedLogLevel": "0 1",
    "SlurmctldDebug": LEVELS,
    "SlurmctldSyslogDebug": LEVELS,
    "SlurmdDebug": LEVELS,
    "SlurmdSyslogDebug": LEVELS,
    "SwitchType": "switch/hpe_slingshot switch/nvidia_imex",
    "TopologyPlugin": "topology/block topology/flat topology/tree",
}
LISTS = {
    "AccountingStorageEnforce": "all associations limits nojobs nosteps qos safe wckeys",
    "AccountingStorageParameters": "max_step_records= SSL_CERT= SSL_CA= SSL_CAPATH= SSL_KEY= SSL_CIPHER=",
    "AccountingStorageTRES": "",
    "AccountingStoreFlags": "job_comment job_env job_extra job_script no_stdio",
    "AuthInfo": "cred_expire= socket= ttl= use_client_ids",
    "BcastExclude": "",
    "BcastParameters": "DestDir= Compression= send_libs",
    "CliFilterParameters": "cli_filter_lua_path=",
    "CliFilterPlugins": "cli_filter/lua cli_filter/syslog cli_filter/user_defaults",
    "CommunicationParameters": """block_null_hash disable_http host_unreach_retry_count= DisableIPv4 EnableIPv6
        getnameinfo_cache_timeout= keepaliveinterval= keepaliveprobes= keepalivetime= NoCtldInAddrAny NoInAddrAny""",
    "CpuFreqGovernors": "Conservative OnDemand Performance PowerSave SchedUtil UserSpace",
    "DebugFlags": DEBUG,
    "DependencyParameters": "disable_remote_singleton kill_invalid_depend max_depend_depth=",
    "FederationParameters": "fed_display",
    "GresTypes": "gpu mps nic shard",
    "HealthCheckNodeState": "ALLOC ANY CYCLE IDLE NONDRAINED_IDLE MIXED REBOOT_ONLY START_ONLY",
    "JobAcctGatherFrequency": "",
    "JobAcctGatherParams": "DisableGPUAcct no_file_cache NoShared OverMemoryKill UsePss",
    "JobSubmitPlugins": "all_partitions defaults logging lua partition pbs require_timelimit throttle",
    "LaunchParameters": """batch_step_set_cpu_freq interactive_step_set_cpu_freq enable_nss_slurm mpir_use_nodeaddr
        disable_send_gids slurmstepd_memlock slurmstepd_memlock_all srun_exclusive_allocation test_exec
        use_interactive_step ulimit_pam_adopt""",
    "Licenses": "",
    "MetricsAuthUsers": "",
    "MetricsParameters": "ignore_private_data",
    "PreemptMode": "OFF CANCEL GANG REQUEUE SUSPEND PRIORITY WITHIN",
    "PreemptParameters": """min_exempt_priority= reclaim_licenses reorder_count= send_user_signal strict_order
        suspend_grace_time= youngest_first""",
    "PriorityFlags": """ACCRUE_ALWAYS CALCULATE_RUNNING DEPTH_OBLIVIOUS NO_FAIR_TREE INCR_ONLY MAX_TRES MAX_TRES_GRES
        NO_NORMAL_ALL NO_NORMAL_ASSOC NO_NORMAL_PART NO_NORMAL_QOS NO_NORMAL_TRES SMALL_RELATIVE_TO_TIME""",
    "PriorityWeightTRES": "",
    "PrivateData": "accounts events jobs nodes partitions reservations usage users",
    "PrologFlags": "Alloc Contain DeferBatch NoHold ForceRequeueOnFail RunInJob Serial X11",
    "PropagateResourceLimits": LIMITS,
    "PropagateResourceLimitsExcept": LIMITS,
    "ReconfigFlags": "KeepPartInfo KeepPartState KeepPowerSaveSettings",
    "RequeueExit": "",
    "RequeueExitHold": "",
    "SchedulerParameters": SCHEDULER,
    "ScronParameters": "enable explicit_scancel",
    "SelectTypeParameters": """CR_CPU CR_CPU_Memory CR_Core CR_Core_Memory CR_Socket CR_Socket_Memory
        CR_ONE_TASK_PER_CORE CR_CORE_DEFAULT_DIST_BLOCK CR_LLN CR_Pack_Nodes LL_SHARED_GRES MULTIPLE_SHARING_GRES_PJ
        ENFORCE_BINDING_GRES ONE_TASK_PER_SHARING_GRES CR_NO_DIST_TOPO_BLOCK""",
    "SlurmctldParameters": CONTROLLER,
    "SlurmdParameters": f"""allow_ecores config_overrides {CONNECTIONS} contain_spank l3cache_as_socket
        numa_node_as_socket shutdown_on_reboot""",
    "TaskPlugin": "task/affinity task/cgroup",
    "TaskPluginParam": "Cores None Sockets Threads SlurmdSpecOverride SlurmdOffSpec OOMKillStep Verbose Autobind=",
    "TopologyParam": """Dragonfly RoutePart BlockAsNodeRank SwitchAsNodeRank RouteTree TopoMaxSizeUnroll=
        TopoOptional""",
}
WHOLES = """AcctGatherNodeFreq BatchStartTimeout CompleteWait DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode
    EioTimeout EpilogMsgTime EpilogTimeout FairShareDampeningFactor FirstJobId GroupUpdateTime HealthCheckInterval
    HealthCheckTimeout InactiveLimit KillWait MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId MaxMemPerCPU
    MaxMemPerNode MaxNodeCount MaxStepCount MaxTasksPerNode MessageTimeout MinJobAge PriorityWeightAge
    PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS
    PrologEpilogTimeout PrologTimeout SchedulerTimeSlice SlurmctldTimeout SlurmdTimeout TCPTimeout TreeWidth
    UnkillableStepTimeout VSizeFactor WaitTime"""
SWITCHES = "GroupUpdateForce JobFileAppend JobRequeue KillOnBadExit UsePAM"
YES = "AllowSpecResourcesUsage DisableRootJobs PriorityFavorSmall TrackWCKey"
TIMES = "PreemptExemptTime PriorityCalcPeriod PriorityDecayHalfLife PriorityMaxAge"
TEXTS = """BurstBufferType HealthCheckProgram InteractiveStepOptions JobCompLoc JobCompParams
    LicenseParameters MailDomain MailProg MCSParameters MpiParams NodeFeaturesPlugins OverTimeLimit PrEpParameters
    PrEpPlugins PriorityParameters PrioritySiteFactorParameters PrioritySiteFactorPlugin ResvEpilog ResvOverRun
    ResvProlog SrunEpilog SrunPortRange SrunProlog SwitchParameters TaskEpilog TaskProlog TmpFS
    UnkillableStepProgram"""

_LONGEST = 65533
BOUNDS = {
    "BatchStartTimeout": (1, _LONGEST),
    "CompleteWait": (0, _LONGEST),
    "KillWait": (0, _LONGEST),
    "MaxBatchRequeue": (1, _LONGEST),
    "MaxNodeCount": (1, 65536),
    "MessageTimeout": (1, _LONGEST),
    "SlurmdTimeout": (0, _LONGEST),
    "TreeWidth": (1, _LONGEST),
}


def _options() -> Iterator[tuple[str, Known]]:
    yield from ((name, Known("choice", tuple(words.split()))) for name, words in CHOICES.items())
    yield from ((name, Known("list", tuple(words.split()))) for name, words in LISTS.items())
    for name in WHOLES.split():
        least, most = BOUNDS.get(name, (0, 2**31 - 1))
        yield name, Known("whole", least=least, most=most)
    yield from ((name, Known("switch")) for name in SWITCHES.split())
    yield from ((name, Known("yes")) for name in YES.split())
    yield from ((name, Known("time")) for name in TIMES.split())
    yield from ((name, Known("text")) for name in TEXTS.split())


OPTIONS: Mapping[str, Known] = MappingProxyType(dict(sorted(_options(), key=lambda each: each[0].lower())))
"""Every option that slurm.conf may have beside the operator's lines, by its exact name."""

_OPERATOR = "Slinky's operator writes it"
_SCRIPTS = "Slinky's operator writes it for the scripts that the Controller refers to"
_POWER = "nodes come and go with pods, not by Slurm's power saving"
_TLS = "Slinky's operator has no way to hand out the certificates"

NOT_HERE: Mapping[str, str] = MappingProxyType(
    {
        name: reason
        for reason, group in {
            _OPERATOR: """AccountingStorageHost AccountingStoragePort AccountingStorageType AuthAltParameters
                AuthAltTypes AuthType ClusterName CredType MetricsType SlurmSchedLogFile SlurmUser SlurmctldAddr
                SlurmctldHost SlurmctldLogFile SlurmctldPort SlurmdLogFile SlurmdPort SlurmdSpoolDir SlurmdUser
                StateSaveLocation""",
            _SCRIPTS: "Epilog EpilogSlurmctld Prolog PrologSlurmctld",
            "the image decides it": "PlugStackConfig PluginDir SlurmctldPidFile SlurmdPidFile",
            "there is one slurmctld, and one slurmdbd": """AccountingStorageBackupHost AccountingStorageExternalHost
                SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg""",
            "a password in slurm.conf is read by everybody": "AccountingStoragePass JobCompPass JobCompPassScript",
            "jobs are recorded by slurmdbd": "JobCompHost JobCompPort JobCompUser",
            _POWER: """RebootProgram ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout SuspendExcNodes
                SuspendExcParts SuspendExcStates SuspendProgram SuspendRate SuspendTime SuspendTimeout PowerAction""",
            _TLS: """CertgenParameters CertgenType CertmgrParameters CertmgrType TLSParameters TLSType""",
            "the image has the one parser that Slurm needs": "HttpParserType UrlParserType",
            "nobody logs in to the daemons": "SlurmctldHttpAuthParameters SlurmdHttpAuthParameters",
            "workers register themselves; their options are those of their pool": "NodeName DownNodes",
            "partitions are settings of their own": "PartitionName NodeSet",
            "all files come from the platform": "Include",
        }.items()
        for name in group.split()
    }
)
"""Names that are right in Slurm but not for people to set here, with the reason."""
