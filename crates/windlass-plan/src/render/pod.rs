//! Static pods of the control plane.
//!
//! Input: what differs between them ([`ControlPlanePod`]). Output: the Pod.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A directory or file of the machine inside the pod, at the same path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostMount {
    path: String,
    kind: &'static str,
    read_only: bool,
}

impl HostMount {
    /// A directory, read only.
    pub(crate) fn directory(path: &str) -> Self {
        Self { path: path.to_owned(), kind: "DirectoryOrCreate", read_only: true }
    }

    /// A directory the pod writes into.
    pub(crate) fn writable(path: &str) -> Self {
        Self { read_only: false, ..Self::directory(path) }
    }

    /// A file, read only. It must be rewritten in place, or the pod goes on seeing the old one.
    pub(crate) fn file(path: &str) -> Self {
        Self { path: path.to_owned(), kind: "File", read_only: true }
    }

    /// Is this path reachable through the mount?
    pub(crate) fn holds(&self, path: &str) -> bool {
        path == self.path || path.strip_prefix(&self.path).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// How the kubelet asks after a component.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    /// On the machine's loopback address, or its own.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: u16,
    /// `HTTP` or `HTTPS`.
    pub(crate) scheme: &'static str,
    /// Path that fails when a restart would help.
    pub(crate) live: &'static str,
    /// Path that fails while it cannot serve.
    pub(crate) ready: &'static str,
}

/// A control-plane component as a static pod.
#[derive(Clone, Debug)]
pub(crate) struct ControlPlanePod {
    pub(crate) name: &'static str,
    pub(crate) image: String,
    pub(crate) command: Vec<String>,
    pub(crate) annotations: BTreeMap<&'static str, String>,
    pub(crate) mounts: Vec<HostMount>,
    pub(crate) health: Health,
    pub(crate) cpu: &'static str,
    pub(crate) memory: Option<&'static str>,
}

impl ControlPlanePod {
    /// The Pod.
    pub(crate) fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("name".into(), json!(self.name));
        metadata.insert("namespace".into(), json!("kube-system"));
        metadata.insert("labels".into(), json!({ "component": self.name, "tier": "control-plane" }));
        if !self.annotations.is_empty() {
            metadata.insert("annotations".into(), json!(self.annotations));
        }
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "hostNetwork": true,
                "priority": SYSTEM_NODE_CRITICAL,
                "priorityClassName": "system-node-critical",
                "securityContext": { "seccompProfile": { "type": "RuntimeDefault" } },
                "containers": [self.container()],
                "volumes": self.volumes(),
            },
        })
    }

    fn container(&self) -> Value {
        let mut requests = Map::new();
        requests.insert("cpu".into(), json!(self.cpu));
        if let Some(memory) = self.memory {
            requests.insert("memory".into(), json!(memory));
        }
        json!({
            "name": self.name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": self.command,
            "resources": { "requests": requests },
            // A slow start is given four minutes, a quick one is seen within a second.
            "startupProbe": self.probe(self.health.live, 1, 240, 15),
            "readinessProbe": self.probe(self.health.ready, 5, 3, 15),
            "livenessProbe": self.probe(self.health.live, 10, 8, 15),
            "volumeMounts": self.volume_mounts(),
        })
    }

    fn probe(&self, path: &str, period: u32, failures: u32, timeout: u32) -> Value {
        let Health { host, port, scheme, .. } = &self.health;
        json!({
            "httpGet": { "host": host, "port": port, "path": path, "scheme": scheme },
            "periodSeconds": period,
            "failureThreshold": failures,
            "timeoutSeconds": timeout,
        })
    }

    fn volume_mounts(&self) -> Vec<Value> {
        let mount = |(index, mount): (usize, &HostMount)| json!({ "name": volume_name(index), "mountPath": mount.path, "readOnly": mount.read_only });
        self.mounts.iter().enumerate().map(mount).collect()
    }

    fn volumes(&self) -> Vec<Value> {
        let volume = |(index, mount): (usize, &HostMount)| json!({ "name": volume_name(index), "hostPath": { "path": mount.path, "type": mount.kind } });
        self.mounts.iter().enumerate().map(volume).collect()
    }
}

/// Value of the priority class `system-node-critical`.
const SYSTEM_NODE_CRITICAL: u32 = 2_000_001_000;

fn volume_name(index: usize) -> String {
    format!("host-{index}")
}
