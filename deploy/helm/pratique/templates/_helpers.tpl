{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* What the other templates share: names, labels, and what may not be installed. */ -}}

{{- define "pratique.name" -}}
{{- if .Values.nameOverride -}}
{{ .Values.nameOverride }}
{{- else if contains "pratique" .Release.Name -}}
{{ .Release.Name | trunc 42 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-pratique" (.Release.Name | trunc 33 | trimSuffix "-") }}
{{- end -}}
{{- end -}}

{{- define "pratique.selector" -}}
app.kubernetes.io/name: pratique
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pratique.labels" -}}
{{ include "pratique.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "pratique.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "pratique.scheme" -}}
{{ ternary "https" "http" (ne .Values.tls.existingSecret "") }}
{{- end -}}

{{- /* Our pods keep away from the nodes that wait for us: else nobody could let those in. */ -}}
{{- define "pratique.affinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: pratique.dev/managed, operator: NotIn, values: ["true"]}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "pratique.selector" .root | nindent 12 }}
            app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "pratique.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "pratique.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* Where the records are, for servers and for `migrate`. Takes root and the Secret with the address. */ -}}
{{- define "pratique.recordsEnv" -}}
- name: PRATIQUE_DATA_DIR
  value: /var/lib/pratique
{{- if eq .root.Values.database.kind "postgresql" }}
- name: PRATIQUE_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .url.name }}
      key: {{ .url.key }}
{{- end }}
{{- if .root.Values.keys.existingSecret }}
- name: PRATIQUE_SECRET_KEY_FILE
  value: /etc/pratique/keys/pepper
- name: PRATIQUE_SIGNING_KEY_FILE
  value: /etc/pratique/keys/signing
{{- end }}
{{- end -}}

{{- define "pratique.recordsMounts" -}}
- name: records
  mountPath: /var/lib/pratique
- name: tmp
  mountPath: /tmp
{{- if .Values.keys.existingSecret }}
- name: keys
  mountPath: /etc/pratique/keys
  readOnly: true
{{- end }}
{{- end -}}

{{- define "pratique.recordsVolumes" -}}
- name: records
{{- if eq .Values.database.kind "sqlite" }}
  persistentVolumeClaim:
    claimName: {{ .Values.database.sqlite.existingClaim | default (include "pratique.name" .) }}
{{- else }}
  emptyDir: {}
{{- end }}
- name: tmp
  emptyDir: {}
{{- with .Values.keys }}
{{- if .existingSecret }}
- name: keys
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 0440
    items:
      - {key: {{ .pepperKey }}, path: pepper}
      - {key: {{ .signingKey }}, path: signing}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The address that the API server asks at, with a token in it where it can send none otherwise. */ -}}
{{- define "pratique.webhookPath" -}}
{{- with .Values.webhook -}}
{{- if .sendsBearer -}}
/k8s/nodes
{{- else if .token -}}
/k8s/{{ .token }}/nodes
{{- else -}}
{{- $secret := lookup "v1" "Secret" $.Release.Namespace .tokenSecret.name -}}
{{- $token := index (($secret).data | default dict) .tokenSecret.key | default "" | b64dec | trim -}}
{{- if not (hasPrefix "prq_webhook_" $token) -}}
{{- fail (printf "webhook: the Secret %s has no token of role webhook under %s. Rendered without a cluster, the chart wants webhook.token." .tokenSecret.name .tokenSecret.key) -}}
{{- end -}}
/k8s/{{ $token }}/nodes
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Refuse a pod that could end up on a node that waits for us. Takes what is placed, its selector and tolerations. */ -}}
{{- define "pratique.checkPlace" -}}
{{- if hasKey .nodeSelector "pratique.dev/managed" -}}
{{- if eq (get .nodeSelector "pratique.dev/managed") "true" -}}
{{- fail (printf "%s.nodeSelector asks for managed nodes: they take no pods until Pratique runs, and Pratique would wait for them." .what) -}}
{{- end -}}
{{- end -}}
{{- range .tolerations -}}
{{- $key := .key | default "" -}}
{{- $isOurs := or (eq $key "pratique.dev/unadmitted") (and (eq $key "") (eq (.operator | default "Equal") "Exists")) -}}
{{- if and $isOurs (ne (.effect | default "") "PreferNoSchedule") -}}
{{- fail (printf "%s.tolerations tolerate pratique.dev/unadmitted: Pratique could land on a node that waits for it. Name the keys that are meant." $.what) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Refuse what cannot work or could deadlock, with the way out. */ -}}
{{- define "pratique.check" -}}
{{- include "pratique.checkPlace" (dict "what" "server" "nodeSelector" .Values.server.nodeSelector "tolerations" .Values.server.tolerations) -}}
{{- include "pratique.checkPlace" (dict "what" "controller" "nodeSelector" .Values.controller.nodeSelector "tolerations" .Values.controller.tolerations) -}}
{{- if and (eq .Values.database.kind "sqlite") (gt (int .Values.server.replicas) 1) -}}
{{- fail "server.replicas: SQLite takes one server. Set database.kind to postgresql for more." -}}
{{- end -}}
{{- if eq .Values.database.kind "postgresql" -}}
{{- if not .Values.database.postgresql.urlSecret.name -}}
{{- fail "database.postgresql.urlSecret.name: name the Secret with the address of the database." -}}
{{- end -}}
{{- if not .Values.keys.existingSecret -}}
{{- fail "keys.existingSecret: with PostgreSQL all servers are given the same two keys; name the Secret with them." -}}
{{- end -}}
{{- end -}}
{{- if and .Values.controller.enabled (not .Values.controller.tokenSecret.name) -}}
{{- fail "controller.tokenSecret.name: name the Secret with a token of role auditor, which a running server makes." -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.host: name the host." -}}
{{- end -}}
{{- with .Values.webhook -}}
{{- if .enabled -}}
{{- if not $.Values.tls.existingSecret -}}
{{- fail "webhook: an API server asks by TLS only; name the certificate in tls.existingSecret." -}}
{{- end -}}
{{- if not (or .caBundle .certManagerCertificate) -}}
{{- fail "webhook: without webhook.caBundle or webhook.certManagerCertificate no API server trusts the certificate, and every change that it must ask about is refused." -}}
{{- end -}}
{{- if not (or .sendsBearer .token .tokenSecret.name) -}}
{{- fail "webhook.tokenSecret.name: name the Secret with a token of role webhook, which a running server makes." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
