//! kubelet's first client certificate, on a machine without the authority's key.
//!
//! Inputs: the join token's kubeconfig, the machine's name. Outputs: the certificate where kubelet keeps and renews it, and
//! kubelet's kubeconfig. kubelet could ask for it itself, but would meanwhile try to register without it, each time after a
//! longer pause; with the certificate there before it starts, it registers at once.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};
use windlass_pki::Credential;
use windlass_spec::node_config::Authority;

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::files;
use crate::{kubernetes, paths};

const FOLDER: &str = "/var/lib/kubelet/pki";
const CURRENT: &str = "kubelet-client-current.pem";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const PAUSE: Duration = Duration::from_millis(300);
/// A request nobody answered for so long is made again: its approver may have forgotten it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Is there a certificate, and the kubeconfig that names it?
pub(super) fn is_done(cx: &Context) -> bool {
    let current = format!("{FOLDER}/{CURRENT}");
    [current.as_str(), paths::KUBELET_KUBECONFIG].iter().all(|path| cx.host.root.at(path).exists())
}

/// Asks for the certificate, waits for it, and lays it where kubelet looks.
///
/// # Errors
/// When the request is denied, or a file cannot be written.
pub(super) async fn run(cx: &Context, part: &str) -> Result<Changes, PartError> {
    let name = format!("system:node:{}", cx.config().machine.name);
    let (request, key) = windlass_pki::request(&name, &["system:nodes".to_owned()], &[], &[])
        .map_err(|error| PartError::Certificate { name: name.clone(), cause: error.to_string() })?;
    let client = kubernetes::client(&cx.host.root.at(paths::BOOTSTRAP_KUBECONFIG)).await?;
    let requests = Api::<CertificateSigningRequest>::all(client);
    let exchange = async {
        let asked = until_asked(cx, part, &requests, &wish(request)).await;
        cx.board.waiting(part, "the control plane to approve and sign its client certificate");
        let certificate = until_signed(&requests, &asked).await?;
        Ok((asked, certificate))
    };
    let (asked, certificate) = tokio::time::timeout(PATIENCE, exchange)
        .await
        .unwrap_or_else(|_| Err(not_signed("it was not approved and signed within a minute")))?;
    lay(cx, &certificate, &key)?;
    Ok(vec![format!("got kubelet's client certificate ({asked})")])
}

/// Enters the request. In a cluster that comes up the right to do so may follow a moment after the token.
async fn until_asked(
    cx: &Context,
    part: &str,
    requests: &Api<CertificateSigningRequest>,
    wish: &CertificateSigningRequest,
) -> String {
    loop {
        match requests.create(&PostParams::default(), wish).await {
            Ok(asked) => return asked.name_any(),
            Err(error) => cx.board.waiting(part, format!("the API to take its certificate request: {error}")),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn wish(request: String) -> CertificateSigningRequest {
    CertificateSigningRequest {
        metadata: ObjectMeta { generate_name: Some("node-csr-".to_owned()), ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(request.into_bytes()),
            signer_name: SIGNER.to_owned(),
            usages: Some(["digital signature", "client auth"].map(str::to_owned).to_vec()),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    }
}

fn not_signed(cause: &str) -> PartError {
    PartError::Certificate { name: "kubelet-client".to_owned(), cause: cause.to_owned() }
}

async fn until_signed(requests: &Api<CertificateSigningRequest>, name: &str) -> Result<String, PartError> {
    loop {
        // A server that goes away meanwhile is replaced by the balancer.
        if let Ok(found) = requests.get(name).await {
            let status = found.status.unwrap_or_default();
            if let Some(ByteString(certificate)) = status.certificate {
                return String::from_utf8(certificate).map_err(|error| not_signed(&error.to_string()));
            }
            let mut refusals = status.conditions.iter().flatten();
            if let Some(refusal) = refusals.find(|condition| matches!(condition.type_.as_str(), "Denied" | "Failed")) {
                return Err(not_signed(refusal.message.as_deref().unwrap_or("the request was denied")));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Certificate and key in one file, named and linked as kubelet does it, so that kubelet renews it from there.
fn lay(cx: &Context, certificate: &str, key: &str) -> Result<(), PartError> {
    let folder = cx.host.root.at(FOLDER);
    let name = format!("kubelet-client-{}.pem", Timestamp::now().strftime("%Y-%m-%d-%H-%M-%S"));
    let pair = folder.join(&name);
    files::replace(&pair, format!("{certificate}{key}").as_bytes(), 0o600, None).map_err(PartError::file(&pair))?;
    link(&folder, &name).map_err(PartError::file(&folder.join(CURRENT)))?;
    let current = format!("{FOLDER}/{CURRENT}");
    let kubeconfig = cx.host.root.at(paths::KUBELET_KUBECONFIG);
    let text = windlass_pki::kubeconfig(
        &cx.config().cluster,
        &format!("https://{}", cx.config().balancer.listen),
        cx.secrets().authorities.get(&Authority::Cluster).map_or("", String::as_str),
        &format!("system:node:{}", cx.config().machine.name),
        &Credential::Files { certificate: &current, key: &current },
    );
    files::replace(&kubeconfig, text.as_bytes(), 0o600, None).map_err(PartError::file(&kubeconfig))
}

fn link(folder: &Path, name: &str) -> std::io::Result<()> {
    let beside = folder.join(format!(".{CURRENT}.windlass"));
    match fs_err::remove_file(&beside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs_err::os::unix::fs::symlink(folder.join(name), &beside)?;
    fs_err::rename(beside, folder.join(CURRENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fixture;

    #[test]
    fn the_certificate_lies_where_kubelet_keeps_it() {
        let mut machine = fixture::machine();
        machine.secrets(|secrets| {
            secrets.authorities.insert(Authority::Cluster, "CA\n".into());
        });
        let cx = machine.context();
        assert!(!is_done(&cx));
        lay(&cx, "CERTIFICATE\n", "KEY\n").unwrap();
        lay(&cx, "NEWER\n", "KEY\n").unwrap();
        assert!(is_done(&cx));
        let current = machine.path(&format!("{FOLDER}/{CURRENT}"));
        assert!(fs_err::symlink_metadata(&current).unwrap().is_symlink());
        assert_eq!(fs_err::read_to_string(&current).unwrap(), "NEWER\nKEY\n");
        let text = fs_err::read_to_string(machine.path(paths::KUBELET_KUBECONFIG)).unwrap();
        assert!(text.contains(r#"client-certificate: "/var/lib/kubelet/pki/kubelet-client-current.pem""#), "{text}");
    }
}
