//! The keys and certificates of a cluster.
//!
//! Inputs: a moment, the wishes of a node config ([`windlass_spec::node_config::Certificate`]), stored PEM text.
//! Outputs: authorities, certificates issued from them, kubeconfigs, and what stands in certificates and requests.
//! No I/O: where a key may lie is decided by whoever writes it.
//!
//! | authority | signs | key lies |
//! |---|---|---|
//! | cluster | API servers, kubelets (client and serving, through kube-controller-manager), controller manager, scheduler, agents, admins | control-plane machines; the owner's Secret `CLUSTER-ca` |
//! | etcd | etcd servers, peers and clients (API servers, agents) | control-plane machines; `CLUSTER-etcd` |
//! | front proxy | the client certificate with which API servers call aggregated API servers | control-plane machines; `CLUSTER-proxy` |
//!
//! | pair or key | for | lies |
//! |---|---|---|
//! | service account | signs tokens (ES256) | control-plane machines; `CLUSTER-sa` |
//! | encryption | encrypts Secrets at rest | control-plane machines; `CLUSTER-encryption` |
//!
//! Keys are ECDSA P-256. Every certificate is back-dated by [`BACKDATE`], so that a machine whose clock is behind
//! takes it, and never outlives its authority.

mod authorities;
mod error;
mod inspect;
mod issue;
mod kubeconfig;

pub use authorities::{Authorities, KeyPair, SecretKind, ServiceAccountKeys};
pub use error::PkiError;
pub use inspect::{CertificateFacts, RequestFacts, inspect_certificate, inspect_request};
pub use issue::{AUTHORITY_DAYS, BACKDATE, authority, issue, issue_for, request};
pub use kubeconfig::{ADMINS_GROUP, AGENTS_GROUP, Credential, admin_kubeconfig, kubeconfig};
