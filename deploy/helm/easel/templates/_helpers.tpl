{{- define "easel.name" -}}
{{- if contains "easel" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-easel" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "easel.selector" -}}
app.kubernetes.io/name: easel
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "easel.labels" -}}
{{ include "easel.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "easel.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "easel.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "easel.name" .) }}
{{- end }}

{{/* Rules for combinations of values, which a schema cannot express. */}}
{{- define "easel.check" -}}
{{- $held := .Values.upstream.keySecret.name }}
{{- $callers := or .Values.callers.secret.name .Values.callers.configMap.name }}
{{- if and .Values.callers.secret.name .Values.callers.configMap.name }}
{{- fail "callers.secret and callers.configMap: one of them has the callers file" }}
{{- end }}
{{- if and $held (not $callers) (not .Values.tls.clientCA) (not .Values.callers.allowAnonymous) }}
{{- fail "upstream.keySecret: with a shared API key, select the callers: callers.secret, callers.configMap, tls.clientCA or callers.allowAnonymous" }}
{{- end }}
{{- if and (not $held) (or $callers .Values.callers.allowAnonymous) }}
{{- fail "callers: not used without upstream.keySecret, because callers use their own keys" }}
{{- end }}
{{- if and $callers (not .Values.ledger.url) }}
{{- fail "callers needs ledger.url: the ledger records the owner of each order" }}
{{- end }}
{{- if and (not .Values.ledger.url) (or .Values.ledger.passwordSecret.name .Values.ledger.caSecret.name) }}
{{- fail "ledger.passwordSecret and ledger.caSecret need ledger.url" }}
{{- end }}
{{- $content := or .Values.content.url .Values.content.volumeClaim }}
{{- if and .Values.content.url .Values.content.volumeClaim }}
{{- fail "content.url and content.volumeClaim: one of them has the copies" }}
{{- end }}
{{- if and $content (or (not $held) (not .Values.ledger.url)) }}
{{- fail "content needs upstream.keySecret and ledger.url: results of callers' own keys are not copied, and the ledger records the copies" }}
{{- end }}
{{- if and .Values.content.credentialsSecret.name (not .Values.content.url) }}
{{- fail "content.credentialsSecret needs content.url" }}
{{- end }}
{{- if and $callers (not .Values.tls.secretName) (ne (toString (get .Values.settings "EASEL_ALLOW_PLAINTEXT")) "true") }}
{{- fail "callers without tls.secretName: tokens would travel in the clear; set tls.secretName, or settings.EASEL_ALLOW_PLAINTEXT: \"true\" where a mesh encrypts" }}
{{- end }}
{{- if and .Values.tls.clientCA (not .Values.tls.secretName) }}
{{- fail "tls.clientCA needs tls.secretName" }}
{{- end }}
{{- if and .Values.tls.clientAuth (not .Values.tls.clientCA) }}
{{- fail "tls.clientAuth needs tls.clientCA" }}
{{- end }}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) }}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas" }}
{{- end }}
{{- if and (not .Values.ledger.url) (gt (int (ternary .Values.autoscaling.maxReplicas .Values.replicas .Values.autoscaling.enabled)) 1) }}
{{- fail "more than one replica needs ledger.url: replicas share orders and polls there" }}
{{- end }}
{{- end }}
