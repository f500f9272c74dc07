{{- define "so.namespace" -}}{{ default .Release.Namespace .Values.namespaceOverride }}{{- end }}

{{- define "so.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "so.serviceAccount" -}}
{{ default (printf "%s-%s" .root.Release.Name .name) .part.serviceAccount.name }}
{{- end }}

{{- define "so.image" -}}
{{ .part.image.repository }}{{ if .part.image.digest }}@{{ .part.image.digest }}{{ else }}:{{ default .root.Chart.Version .part.image.tag }}{{ end }}
{{- end }}

{{- /* Everything of the operator or of the webhook but what only one of them has. name, part, args, root. */ -}}
{{- define "so.workload" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ include "so.namespace" .root }}
  labels: {{- include "so.labels" . | nindent 4 }}
spec:
  replicas: {{ .part.replicas }}
  selector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}, app.kubernetes.io/instance: {{ .root.Release.Name }}}
  template:
    metadata:
      labels: {{- include "so.labels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ include "so.serviceAccount" . }}
      {{- with .root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- range $key, $field := dict "nodeSelector" "nodeSelector" "affinity" "affinity" "tolerations" "tolerations" "topologySpreadConstraints" "topologySpreadConstraints" "podSecurityContext" "securityContext" }}
      {{- with index $.part $key }}
      {{ $field }}: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      containers:
        - name: {{ .name }}
          image: {{ include "so.image" . }}
          imagePullPolicy: {{ .root.Values.imagePullPolicy }}
          args: {{- toYaml .args | nindent 12 }}
          ports:
            {{- if .port }}
            - {name: webhook-server, containerPort: {{ .port }}}
            {{- end }}
            - {name: health, containerPort: {{ .part.healthPort }}}
            {{- if .part.metricsPort }}
            - {name: metrics, containerPort: {{ .part.metricsPort }}}
            {{- end }}
          livenessProbe: {httpGet: {path: /healthz, port: health}}
          readinessProbe: {httpGet: {path: /readyz, port: health}}
          {{- with .part.resources }}
          resources: {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with .part.securityContext }}
          securityContext: {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if .secret }}
          volumeMounts:
            - {name: certificates, mountPath: /tmp/k8s-webhook-server/serving-certs, readOnly: true}
      volumes:
        - {name: certificates, secret: {secretName: {{ .secret }}, defaultMode: 420}}
          {{- end }}
{{- if .part.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "so.serviceAccount" . }}
  namespace: {{ include "so.namespace" .root }}
  labels: {{- include "so.labels" . | nindent 4 }}
  {{- with .part.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- if .part.pdb.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ include "so.namespace" .root }}
  labels: {{- include "so.labels" . | nindent 4 }}
spec:
  minAvailable: {{ .part.pdb.minAvailable }}
  selector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}, app.kubernetes.io/instance: {{ .root.Release.Name }}}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels: {{- include "so.labels" . | nindent 4 }}
rules: {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels: {{- include "so.labels" . | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ .name }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "so.serviceAccount" . }}, namespace: {{ include "so.namespace" .root }}}
{{- end }}

{{- /* The namespaces that a webhook looks at: those named, or all but the cluster's and the operator's own. */ -}}
{{- define "so.namespaceSelector" -}}
matchExpressions:
  {{- if .named }}
  - {key: kubernetes.io/metadata.name, operator: In, values: [{{ .named }}]}
  {{- else }}
  - {key: kubernetes.io/metadata.name, operator: NotIn, values: [{{ join ", " .except }}]}
  {{- end }}
{{- end }}
