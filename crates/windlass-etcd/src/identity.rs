//! The cluster id etcd derives from a static member list and a token.
//!
//! Inputs: peer URLs of every first member, the cluster token. Output: the id each member of that cluster reports in
//! every answer, by which a peer of the same forming is told from one of another.

use sha1::{Digest as _, Sha1};

/// Id of one first member: over its peer URLs in order and the token.
fn member_id(peer_url: &str, token: &str) -> u64 {
    first_eight(Sha1::new().chain_update(peer_url).chain_update(token))
}

/// Id of the cluster formed by members of one peer URL each, with this token.
pub fn cluster_id<'a>(peer_urls: impl IntoIterator<Item = &'a str>, token: &str) -> u64 {
    let mut members: Vec<u64> = peer_urls.into_iter().map(|url| member_id(url, token)).collect();
    members.sort_unstable();
    first_eight(members.iter().fold(Sha1::new(), |hash, id| hash.chain_update(id.to_be_bytes())))
}

fn first_eight(hash: Sha1) -> u64 {
    let digest: [u8; 20] = hash.finalize().into();
    digest.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_and_the_token_does() {
        let urls = ["https://etcd-a:2380", "https://etcd-b:2380"];
        let turned = ["https://etcd-b:2380", "https://etcd-a:2380"];
        assert_eq!(cluster_id(urls, "x"), cluster_id(turned, "x"));
        assert_ne!(cluster_id(urls, "x"), cluster_id(urls, "y"));
    }

    #[test]
    fn the_default_single_member_of_etcd_has_its_known_ids() {
        assert_eq!(format!("{:x}", member_id("http://localhost:2380", "etcd-cluster")), "8e9e05c52164694d");
        assert_eq!(format!("{:x}", cluster_id(["http://localhost:2380"], "etcd-cluster")), "cdf818194e3a8c32");
    }
}
