//! Masquerade of what pods send outside of the cluster.
//!
//! Inputs: ranges of pods, services and nodes. Output: one nftables table, replaced as a whole when it differs.

use std::fmt::Write as _;

use ipnet::IpNet;
use sha2::{Digest as _, Sha256};
use windlass_spec::node_config::PodNetwork;

use crate::error::{Changes, PartError};
use crate::host::command::{Command, Commands};

const TABLE: &str = "windlass";

/// Brings the table in, or away where routes are not ours to keep.
///
/// # Errors
/// When nft fails.
pub async fn apply(commands: &dyn Commands, network: &PodNetwork) -> Result<Changes, PartError> {
    let found = commands.run(Command::new("nft", ["list", "table", "inet", TABLE])).await?;
    if !network.routes {
        if !found.is_success() {
            return Ok(Changes::new());
        }
        commands.succeed(Command::new("nft", ["delete", "table", "inet", TABLE])).await?;
        return Ok(vec!["removed the masquerade".to_owned()]);
    }
    let (text, mark) = ruleset(network);
    if found.is_success() && found.stdout.contains(&mark) {
        return Ok(Changes::new());
    }
    commands.succeed(Command::new("nft", ["-f", "-"]).stdin(text)).await?;
    Ok(vec!["set the masquerade of pods".to_owned()])
}

/// The table's text, and the mark by which it is known again.
fn ruleset(network: &PodNetwork) -> (String, String) {
    let mut rules = String::new();
    for family in [Family::V4, Family::V6] {
        let pods = family.list(network.pods.iter());
        if pods.is_empty() {
            continue;
        }
        let inside = family.list(network.pods.iter().chain(&network.services).chain(&network.nodes));
        let name = family.name();
        let _ = writeln!(rules, "    {name} saddr {{ {pods} }} {name} daddr {{ {inside} }} return");
        let _ = writeln!(rules, "    {name} saddr {{ {pods} }} masquerade");
    }
    let mark = format!("windlass-{}", &hex::encode(Sha256::digest(&rules))[..16]);
    let text = format!(
        "table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n  comment \"{mark}\"\n  \
         chain postrouting {{\n    type nat hook postrouting priority srcnat; policy accept;\n{rules}  }}\n}}\n"
    );
    (text, mark)
}

#[derive(Clone, Copy)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    /// The ranges of this family; nftables refuses a range inside another in one set, so inner ones are left out.
    fn list<'a>(self, ranges: impl Iterator<Item = &'a IpNet>) -> String {
        let ours: Vec<&IpNet> = ranges
            .filter(|range| matches!((self, range), (Self::V4, IpNet::V4(_)) | (Self::V6, IpNet::V6(_))))
            .collect();
        let mut kept: Vec<String> = ours
            .iter()
            .filter(|range| !ours.iter().any(|other| other != *range && other.contains(**range)))
            .map(ToString::to_string)
            .collect();
        kept.dedup();
        kept.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ruleset_is_as_expected() {
        let network = PodNetwork {
            routes: true,
            pods: vec!["10.244.0.0/16".parse().unwrap()],
            services: vec!["10.96.0.0/16".parse().unwrap()],
            nodes: vec!["10.77.0.0/24".parse().unwrap()],
        };
        let (text, mark) = ruleset(&network);
        insta::assert_snapshot!(text.replace(&mark, "MARK"), @r#"
        table inet windlass
        delete table inet windlass
        table inet windlass {
          comment "MARK"
          chain postrouting {
            type nat hook postrouting priority srcnat; policy accept;
            ip saddr { 10.244.0.0/16 } ip daddr { 10.244.0.0/16, 10.96.0.0/16, 10.77.0.0/24 } return
            ip saddr { 10.244.0.0/16 } masquerade
          }
        }
        "#);
    }
}
