{{- define "isthmus.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* Call with (list . "gateway"): what selects a part's pods. */ -}}
{{- define "isthmus.selector" -}}
app.kubernetes.io/name: isthmus
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "isthmus.podSecurity" -}}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "isthmus.security" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "isthmus.boardEnvironment" -}}
{{- with .Values.board.secret }}
envFrom:
  - secretRef: {name: {{ . }}}
{{- end }}
{{- end -}}

{{- define "isthmus.arguments" -}}
{{- range . }}
- {{ . | toString | quote }}
{{- end }}
{{- end -}}

{{- /* Where an island reads the board: at the relay, if there is one. */ -}}
{{- define "isthmus.islandBoard" -}}
{{- $arguments := list "--run" .Values.run "--replica" "/srv/replica/model" "--board" -}}
{{- if .Values.relay.enabled -}}
{{- $arguments = append $arguments (printf "http://%s-relay:%v" .Release.Name .Values.relay.port) -}}
{{- else -}}
{{- $arguments = concat (append $arguments .Values.board.location) .Values.board.options -}}
{{- end -}}
{{- if .Values.board.trust -}}
{{- $arguments = concat $arguments (list "--trust" "/etc/isthmus/trust/keys.pem") -}}
{{- end -}}
{{- include "isthmus.arguments" $arguments -}}
{{- end -}}
