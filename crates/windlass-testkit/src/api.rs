//! A real kube-apiserver over a real etcd, on loopback, for tests of controllers and workflows.
//!
//! Output: [`TestApi`] with an administrator's kubeconfig and client. RBAC is off (every known client may do all) and
//! the service-account admission is away, so that it answers in about three seconds; everything is gone when dropped.

use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;

use crate::binaries;
use crate::etcd::{Etcd, StartError, free_port, wait};
use crate::process::Child;

/// A running API server with its etcd. Fields are dropped in order: the server first, the folder last.
#[derive(Debug)]
pub struct TestApi {
    server: Child,
    etcd: Etcd,
    port: u16,
    folder: TempDir,
}

impl TestApi {
    /// Starts both.
    ///
    /// # Errors
    /// When one of them does not answer within a minute.
    pub async fn start() -> Result<Self, StartError> {
        Self::start_with(&[]).await
    }

    /// Starts both, with further or other flags (`--authorization-mode=RBAC`; the last one counts).
    ///
    /// # Errors
    /// When one of them does not answer within a minute.
    pub async fn start_with(flags: &[&str]) -> Result<Self, StartError> {
        // A second call finds the first one's provider, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let program = binaries::find("kube-apiserver")?;
        let folder = tempfile::Builder::new()
            .prefix("windlass-test-")
            .tempdir()
            .map_err(|source| StartError::Prepare { what: "a folder".into(), source })?;
        let etcd = Etcd::start(folder.path()).await?;
        let port = free_port()?;
        lay_keys(folder.path(), port)?;
        let mut arguments = arguments(folder.path(), port, &etcd.endpoint());
        arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
        let server = Child::spawn(&program, &arguments, &folder.path().join("kube-apiserver.log"))?;
        let api = Self { server, etcd, port, folder };
        let client = api.client().await;
        wait("kube-apiserver", 60, &api.server, async || {
            let request = http_get("/readyz");
            matches!(client.request_text(request).await.as_deref(), Ok("ok"))
        })
        .await?;
        Ok(api)
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The administrator's kubeconfig (group `system:masters`).
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("admin.kubeconfig")
    }

    /// An administrator's client.
    pub async fn client(&self) -> kube::Client {
        let text = fs_err::read_to_string(self.kubeconfig()).expect("written at start");
        let kubeconfig = Kubeconfig::from_yaml(&text).expect("written by us");
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("complete");
        kube::Client::try_from(config).expect("a client")
    }

    /// The etcd beneath.
    pub fn etcd(&mut self) -> &mut Etcd {
        &mut self.etcd
    }

    /// The server's last log lines.
    pub fn last_lines(&self, count: usize) -> String {
        self.server.last_lines(count)
    }

    /// Kills the API server only.
    pub fn kill(&mut self) {
        self.server.kill();
    }
}

fn http_get(path: &str) -> hyper::Request<Vec<u8>> {
    hyper::Request::get(path).body(Vec::new()).expect("a plain request")
}

fn arguments(folder: &Path, port: u16, etcd: &str) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    [
        format!("--etcd-servers={etcd}"),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        "--authorization-mode=AlwaysAllow".into(),
        "--disable-admission-plugins=ServiceAccount".into(),
        "--anonymous-auth=false".into(),
        "--endpoint-reconciler-type=none".into(),
        "--v=1".into(),
    ]
    .into()
}

fn lay_keys(folder: &Path, port: u16) -> Result<(), StartError> {
    let write = |name: &str, text: String| {
        fs_err::write(folder.join(name), text).map_err(|source| StartError::Prepare { what: name.to_owned(), source })
    };
    let authority_key = KeyPair::generate().expect("a key");
    let authority = authority();
    let authority_pem = authority.self_signed(&authority_key).expect("a certificate").pem();
    let issuer = Issuer::from_params(&authority, &authority_key);
    let (server, server_key) = issue(&issuer, "kube-apiserver", None, ExtendedKeyUsagePurpose::ServerAuth);
    let (admin, admin_key) = issue(&issuer, "admin", Some("system:masters"), ExtendedKeyUsagePurpose::ClientAuth);
    let accounts = KeyPair::generate().expect("a key");
    write("ca.crt", authority_pem)?;
    write("server.crt", server)?;
    write("server.key", server_key)?;
    write("admin.crt", admin)?;
    write("admin.key", admin_key)?;
    write("sa.key", accounts.serialize_pem())?;
    write("sa.pub", accounts.public_key_pem())?;
    let file = |name: &str| folder.join(name).display().to_string();
    write(
        "admin.kubeconfig",
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: test\n  cluster: {{server: \"https://127.0.0.1:{port}\", \
             certificate-authority: \"{}\"}}\nusers:\n- name: admin\n  user: {{client-certificate: \"{}\", client-key: \
             \"{}\"}}\ncontexts:\n- name: test\n  context: {{cluster: test, user: admin}}\ncurrent-context: test\n",
            file("ca.crt"),
            file("admin.crt"),
            file("admin.key")
        ),
    )
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "windlass-test");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn issue(
    issuer: &Issuer<'_, &KeyPair>,
    name: &str,
    group: Option<&str>,
    usage: ExtendedKeyUsagePurpose,
) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let mut params = CertificateParams::new(names).expect("legal names");
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.extended_key_usages = vec![usage];
    (params.signed_by(&key, issuer).expect("a certificate").pem(), key.serialize_pem())
}
