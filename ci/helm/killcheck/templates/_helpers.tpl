{{- /* registry/name@digest, else registry/name:tag. */ -}}
{{- define "killcheck.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* What is drilled: without it there is nothing to install. */ -}}
{{- define "killcheck.spec" -}}
{{- $how := "write the values with: killcheck rights killcheck.yaml --format values > values.yaml" -}}
{{- toYaml (required (printf "spec: the kill path is missing; %s" $how) .Values.spec) -}}
{{- end -}}

{{- /* Where both CronJobs' pods may run, and what they carry: a part of a pod's spec. */ -}}
{{- define "killcheck.placement" -}}
{{- range $key := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with index $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}
