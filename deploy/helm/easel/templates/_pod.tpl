{{/* Settings of the process. They contain only the names of secret files, not the secrets. */}}
{{- define "easel.env" -}}
- {name: EASEL_UPSTREAM_URL, value: {{ .Values.upstream.url | quote }}}
{{- if .Values.upstream.insecure }}
- {name: EASEL_UPSTREAM_INSECURE, value: "true"}
{{- end }}
{{- if .Values.upstream.keySecret.name }}
- {name: EASEL_UPSTREAM_KEY_FILE, value: /etc/easel/upstream/{{ .Values.upstream.keySecret.key }}}
{{- end }}
{{- if .Values.callers.secret.name }}
- {name: EASEL_CALLERS_FILE, value: /etc/easel/callers/{{ .Values.callers.secret.key }}}
{{- else if .Values.callers.configMap.name }}
- {name: EASEL_CALLERS_FILE, value: /etc/easel/callers/{{ .Values.callers.configMap.key }}}
{{- end }}
{{- if .Values.callers.allowAnonymous }}
- {name: EASEL_ALLOW_ANONYMOUS, value: "true"}
{{- end }}
- {name: EASEL_GRPC_ADDR, value: ":50051"}
- {name: EASEL_HTTP_ADDR, value: ":8080"}
# The operators' address, which only kubectl exec and port-forward can reach.
- {name: EASEL_ADMIN_ADDR, value: "127.0.0.1:9464"}
- {name: EASEL_METRICS_ADDR, value: ":9465"}
- {name: EASEL_DRAIN_TIMEOUT, value: "{{ .Values.shutdown.drainSeconds }}s"}
{{- if .Values.tls.secretName }}
- {name: EASEL_TLS_CERT_FILE, value: /etc/easel/tls/tls.crt}
- {name: EASEL_TLS_KEY_FILE, value: /etc/easel/tls/tls.key}
{{- if .Values.tls.clientCA }}
- {name: EASEL_TLS_CLIENT_CA_FILE, value: /etc/easel/tls/ca.crt}
{{- if .Values.tls.clientAuth }}
- {name: EASEL_TLS_CLIENT_AUTH, value: {{ .Values.tls.clientAuth }}}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.ledger.url }}
- {name: EASEL_LEDGER_URL, value: {{ .Values.ledger.url | quote }}}
{{- if .Values.ledger.passwordSecret.name }}
- {name: PGPASSFILE, value: /etc/easel/ledger/{{ .Values.ledger.passwordSecret.key }}}
{{- end }}
{{- if .Values.ledger.caSecret.name }}
- {name: PGSSLROOTCERT, value: /etc/easel/ledger-ca/{{ .Values.ledger.caSecret.key }}}
{{- end }}
{{- end }}
{{- if .Values.content.url }}
- {name: EASEL_CONTENT_URL, value: {{ .Values.content.url | quote }}}
{{- if .Values.content.credentialsSecret.name }}
- {name: AWS_SHARED_CREDENTIALS_FILE, value: /etc/easel/content/{{ .Values.content.credentialsSecret.key }}}
{{- end }}
{{- else if .Values.content.volumeClaim }}
- {name: EASEL_CONTENT_URL, value: "file:/var/lib/easel/content"}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- range $name, $value := .Values.telemetry }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- if .Values.goGC }}
- {name: GOGC, value: {{ .Values.goGC | quote }}}
{{- end }}
{{- if .Values.goMemLimit }}
- {name: GOMEMLIMIT, value: {{ .Values.goMemLimit | quote }}}
{{- end }}
{{- end }}

{{/* The mounted secrets. Each has its own directory, so that the pod sees changes. */}}
{{- define "easel.secrets" -}}
{{- $secrets := dict "upstream" .Values.upstream.keySecret.name "callers" .Values.callers.secret.name "ledger" .Values.ledger.passwordSecret.name "ledger-ca" .Values.ledger.caSecret.name "content" .Values.content.credentialsSecret.name "tls" .Values.tls.secretName }}
{{- toYaml $secrets }}
{{- end }}

{{- define "easel.mounts" -}}
{{- range $place, $secret := fromYaml (include "easel.secrets" .) }}
{{- if $secret }}
- {name: {{ $place }}, mountPath: /etc/easel/{{ $place }}, readOnly: true}
{{- end }}
{{- end }}
{{- if .Values.callers.configMap.name }}
- {name: callers, mountPath: /etc/easel/callers, readOnly: true}
{{- end }}
{{- if .Values.content.volumeClaim }}
- {name: copies, mountPath: /var/lib/easel/content}
{{- end }}
{{- end }}

{{- define "easel.volumes" -}}
{{- range $place, $secret := fromYaml (include "easel.secrets" .) }}
{{- if $secret }}
- name: {{ $place }}
  # Readable only by the pod's group.
  secret: {secretName: {{ $secret }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- with .Values.callers.configMap.name }}
- name: callers
  configMap: {name: {{ . }}}
{{- end }}
{{- with .Values.content.volumeClaim }}
- name: copies
  persistentVolumeClaim: {claimName: {{ . }}}
{{- end }}
{{- end }}
