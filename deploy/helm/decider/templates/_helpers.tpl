{{- define "decider.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "decider.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "decider.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "decider.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "decider.selectorLabels" -}}
app.kubernetes.io/name: {{ include "decider.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "decider.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "decider.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "decider.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "decider.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "decider.image" -}}
{{- .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "decider.policiesConfigMap" -}}
{{- if .Values.policies.existingConfigMap }}{{ .Values.policies.existingConfigMap }}
{{- else if .Values.policies.content }}{{ include "decider.fullname" . }}-policies
{{- end }}
{{- end }}

{{- define "decider.sharesState" -}}
{{- if or .Values.redis.url .Values.redis.existingSecret }}true{{ end }}
{{- end }}

{{/* What cannot work is refused here, before it is in the cluster. */}}
{{- define "decider.check" -}}
{{- if and .Values.redis.url .Values.redis.existingSecret }}
{{- fail "redis.url and redis.existingSecret contradict each other" }}
{{- end }}
{{- if and .Values.policies.content .Values.policies.existingConfigMap }}
{{- fail "policies.content and policies.existingConfigMap contradict each other" }}
{{- end }}
{{- if and (not (include "decider.sharesState" .)) (or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1)) }}
{{- fail "replicas without a Redis each grant a whole budget: set redis.existingSecret or redis.url, or replicaCount=1" }}
{{- end }}
{{- if ge (add 10 (trimSuffix "s" .Values.shutdownDelay | int)) (int .Values.terminationGracePeriodSeconds) }}
{{- fail "terminationGracePeriodSeconds must be above shutdownDelay and 10 s of draining" }}
{{- end }}
{{- if and .Values.tls.clientCASecret (not .Values.tls.existingSecret) }}
{{- fail "tls.clientCASecret needs tls.existingSecret" }}
{{- end }}
{{- if and .Values.auth.allowAnonymous (include "decider.identifies" .) }}
{{- fail "auth.allowAnonymous contradicts auth.existingSecret and tls.clientCASecret" }}
{{- end }}
{{- if not (or .Values.auth.allowAnonymous (include "decider.identifies" .)) }}
{{- fail "nobody has to say who they are: set auth.existingSecret or tls.clientCASecret, or auth.allowAnonymous=true if that is meant" }}
{{- end }}
{{- if and .Values.networkPolicy.enabled (include "decider.sharesState" .) (not .Values.networkPolicy.redis.to) }}
{{- fail "networkPolicy.redis.to must say where Redis is, or no decider reaches it" }}
{{- end }}
{{- if not (regexMatch "[1-9]" .Values.redis.timeout) }}
{{- fail "redis.timeout must be above 0" }}
{{- end }}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) }}
{{- fail "autoscaling.minReplicas must not be above autoscaling.maxReplicas" }}
{{- end }}
{{- if and .Values.admin.enabled (eq (int .Values.admin.port) 8080) }}
{{- fail "admin.port must not be 8080, where decider answers" }}
{{- end }}
{{- if and (eq .Values.metrics "admin") (not .Values.admin.enabled) }}
{{- fail "metrics=admin needs admin.enabled=true" }}
{{- end }}
{{- if and (eq .Values.metrics "admin") .Values.serviceMonitor.enabled (not (include "decider.opensAdmin" .)) }}
{{- fail "metrics=admin with serviceMonitor.enabled needs admin.address=0.0.0.0, or Prometheus does not reach them" }}
{{- end }}
{{- if and .Values.networkPolicy.enabled (include "decider.opensAdmin" .) (not .Values.networkPolicy.adminFrom) }}
{{- fail "networkPolicy.adminFrom must say who may reach the admin port, which admin.address opens" }}
{{- end }}
{{- range .Values.extraArgs }}
{{- if regexMatch "^--(metrics|admin-listen)(=|$)" . }}
{{- fail (printf "%s in extraArgs: say it by the values metrics and admin, so that the pod's ports and the ServiceMonitor follow" .) }}
{{- end }}
{{- end }}
{{- range .Values.extraEnv }}
{{- if has .name (list "DECIDER_METRICS" "DECIDER_ADMIN_LISTEN") }}
{{- fail (printf "%s in extraEnv: say it by the values metrics and admin, so that the pod's ports and the ServiceMonitor follow" .name) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "decider.identifies" -}}
{{- if or .Values.auth.existingSecret .Values.tls.clientCASecret }}true{{ end }}
{{- end }}

{{/* The service's port. */}}
{{- define "decider.port" -}}
{{- .Values.service.port | default (ternary 443 80 (eq (include "decider.scheme" .) "https")) }}
{{- end }}

{{/* The admin port lets others in than the pod itself. */}}
{{- define "decider.opensAdmin" -}}
{{- if and .Values.admin.enabled (ne .Values.admin.address "127.0.0.1") }}true{{ end }}
{{- end }}

{{- define "decider.scheme" -}}
{{- if .Values.tls.existingSecret }}https{{ else }}http{{ end }}
{{- end }}

{{/* The folders that are mounted, by name and what each is made of. */}}
{{- define "decider.volumes" -}}
{{- with include "decider.policiesConfigMap" . }}
- name: policies
  configMap:
    name: {{ . }}
{{- end }}
{{- with .Values.auth.existingSecret }}
- name: auth
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.tls.existingSecret }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.tls.clientCASecret }}
- name: client-ca
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}
