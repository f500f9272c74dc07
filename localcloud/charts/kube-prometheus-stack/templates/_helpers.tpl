{{/* A Deployment of one: a dict with root, name, component, values. */}}
{{- define "part.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: &labels
    app.kubernetes.io/name: {{ .name }}
    app.kubernetes.io/component: {{ .component }}
    app.kubernetes.io/instance: {{ .root.Release.Name }}
spec:
  replicas: 1
  selector:
    matchLabels: *labels
  template:
    metadata:
      labels: *labels
    spec:
      {{- with .values.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ .image }}
          {{- with .values.resources }}
          resources: {{- toYaml . | nindent 12 }}
          {{- end }}
{{- end }}
