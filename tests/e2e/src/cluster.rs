//! A cluster under test: kubectl, and what it must become.
//!
//! Input: a sandbox and a cluster's name. Output: answers proven from outside.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::image;
use crate::sandbox::{Said, Sandbox};
use crate::wait;

/// A cluster of a sandbox.
#[derive(Debug)]
pub struct Cluster<'a> {
    /// Where it lives.
    pub sandbox: &'a Sandbox,
    /// Its name.
    pub name: String,
    kubeconfig: PathBuf,
}

impl<'a> Cluster<'a> {
    /// The cluster whose kubeconfig lies where `create` writes it.
    pub fn new(sandbox: &'a Sandbox, name: &str) -> Self {
        let kubeconfig = sandbox.work().join(name).join(format!("{name}.kubeconfig"));
        Self { sandbox, name: name.to_owned(), kubeconfig }
    }

    /// The same cluster, with another kubeconfig.
    #[must_use]
    pub fn with_kubeconfig(mut self, kubeconfig: PathBuf) -> Self {
        self.kubeconfig = kubeconfig;
        self
    }

    /// Its administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// Runs kubectl and returns what it said, whatever the exit code.
    ///
    /// # Errors
    /// When it cannot be run or takes more than a minute.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<Said> {
        self.sandbox.kubectl(60, &self.kubeconfig, arguments, &[])
    }

    /// Runs kubectl and returns its output.
    ///
    /// # Errors
    /// When it fails; with all it said.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let said = self.try_kubectl(arguments)?.expect(0);
        Ok(said.with_context(|| format!("kubectl {}", arguments.join(" ")))?.out.trim().to_owned())
    }

    /// `kubectl get … -o json`.
    ///
    /// # Errors
    /// When it fails.
    pub fn get(&self, arguments: &[&str]) -> Result<Value> {
        let arguments: Vec<&str> = ["get", "-o", "json"].iter().chain(arguments).copied().collect();
        Ok(serde_json::from_str(&self.kubectl(&arguments)?)?)
    }

    /// Applies a document.
    ///
    /// # Errors
    /// When it is refused.
    pub fn apply(&self, document: &str) -> Result<()> {
        self.sandbox.kubectl(60, &self.kubeconfig, &["apply", "-f", "-"], document.as_bytes())?.expect(0)?;
        Ok(())
    }

    /// Names of all Nodes that are Ready.
    ///
    /// # Errors
    /// When the API does not answer.
    pub fn ready_nodes(&self) -> Result<Vec<String>> {
        let nodes = self.get(&["nodes"])?;
        let items = nodes["items"].as_array().context("a list")?;
        let ready = |node: &&Value| condition(node, "Ready") == Some("True");
        let names = items.iter().filter(ready).filter_map(|node| node["metadata"]["name"].as_str());
        Ok(names.map(str::to_owned).collect())
    }

    /// Waits until exactly these Nodes are there and Ready.
    ///
    /// # Errors
    /// When they are not in time.
    pub fn wait_for_nodes(&self, names: &[&str], seconds: u64) -> Result<()> {
        wait::until(&format!("nodes {names:?} Ready"), seconds, || {
            let mut ready = self.ready_nodes()?;
            let mut wanted: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            ready.sort();
            wanted.sort();
            ensure!(ready == wanted, "Ready are {ready:?}");
            Ok(())
        })
    }

    /// Waits until a pod runs and is Ready.
    ///
    /// # Errors
    /// When it is not in time, with its events.
    pub fn wait_for_pod(&self, name: &str, seconds: u64) -> Result<()> {
        wait::until(&format!("pod {name} Ready"), seconds, || {
            let pod = self.get(&["pod", name])?;
            let waiting = &pod["status"]["containerStatuses"];
            ensure!(condition(&pod, "Ready") == Some("True"), "{}: {waiting}", pod["status"]["phase"]);
            Ok(())
        })
        .with_context(|| self.kubectl(&["describe", "pod", name]).unwrap_or_default())
    }

    /// Puts the probe's image into the stores of these machines.
    ///
    /// # Errors
    /// When a machine does not take it.
    pub fn load_probe(&self, probe: &Path, machines: &[&str]) -> Result<()> {
        let archive = image::probe(probe)?;
        for machine in machines {
            let import = ["machine", "shell", machine, "--", "ctr", "-n", "k8s.io", "images", "import", "-"];
            self.sandbox.feed(60, &import, &archive)?.expect(0).with_context(|| format!("importing into {machine}"))?;
        }
        Ok(())
    }

    /// A pod of the probe that serves on 8080, on this machine, with further fields of its container and its spec.
    ///
    /// # Errors
    /// When it is refused.
    pub fn run_probe(&self, name: &str, node: &str, container: &str, spec: &str) -> Result<()> {
        self.run_probe_anywhere(name, container, &format!("nodeName: {node}\n  {spec}"))
    }

    /// The same, where the scheduler puts it.
    ///
    /// # Errors
    /// When it is refused.
    pub fn run_probe_anywhere(&self, name: &str, container: &str, spec: &str) -> Result<()> {
        self.apply(&format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: 0
  tolerations: [{{operator: Exists}}]
  {spec}
  containers:
  - name: probe
    image: {image}
    imagePullPolicy: Never
    args: [serve, "8080"]
    {container}
"#,
            image = image::PROBE
        ))
    }

    /// Runs the probe in a pod; its output.
    ///
    /// # Errors
    /// When it fails.
    pub fn probe(&self, pod: &str, arguments: &[&str]) -> Result<String> {
        let line: Vec<&str> = ["exec", pod, "--", "/probe"].iter().chain(arguments).copied().collect();
        self.kubectl(&line)
    }

    /// Runs a command inside a machine; its output.
    ///
    /// # Errors
    /// When it fails; with all it said.
    pub fn inside(&self, machine: &str, command: &[&str]) -> Result<String> {
        let line: Vec<&str> = ["machine", "shell", machine, "--"].iter().chain(command).copied().collect();
        self.sandbox.ok(60, &line)
    }

    /// A file of a machine.
    ///
    /// # Errors
    /// When it is not there.
    pub fn file(&self, machine: &str, path: &str) -> Result<String> {
        self.inside(machine, &["cat", path])
    }

    /// `etcdctl` on a control-plane machine, with the machine's own client certificate.
    ///
    /// # Errors
    /// When it fails.
    pub fn etcdctl(&self, machine: &str, arguments: &[&str]) -> Result<String> {
        let keys = "/etc/kubernetes/pki";
        let flags = [
            "--endpoints=https://127.0.0.1:2379".to_owned(),
            format!("--cacert={keys}/etcd/ca.crt"),
            format!("--cert={keys}/apiserver-etcd-client.crt"),
            format!("--key={keys}/apiserver-etcd-client.key"),
        ];
        let flags = flags.iter().map(String::as_str);
        let line: Vec<&str> = ["etcdctl"].into_iter().chain(flags).chain(arguments.iter().copied()).collect();
        self.inside(machine, &line)
    }

    /// What `windlass status` and the machines say, for a failed check's message.
    pub fn say(&self) -> String {
        let said = |arguments: &[&str]| match self.sandbox.windlass(30, arguments) {
            Ok(said) => format!("$ windlass {}\n{}{}\n", arguments.join(" "), said.out, said.err),
            Err(error) => format!("$ windlass {}\n{error:#}\n", arguments.join(" ")),
        };
        let pods = self.try_kubectl(&["get", "pods", "-A", "-o", "wide"]).map(|said| said.out).unwrap_or_default();
        [said(&["status", &self.name]), said(&["machine", "ls"]), pods].concat()
    }
}

/// The status of a condition.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}
