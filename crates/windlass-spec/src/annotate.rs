//! The full spec for people: YAML in which each value says who set it.
//!
//! Input: a [`FullCluster`]. Outputs: text with `# yours`, `# default`, `# derived` behind each value, and the same as a
//! value for programs. Passwords in proxy addresses are not shown.

mod yaml;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::full::{FullCluster, Origin};
use crate::resolve::{join, origin_at};

/// What stands in a password's place.
const HIDDEN: &str = "***";

/// The full spec as YAML, a comment behind each value.
pub fn annotated_yaml(full: &FullCluster) -> String {
    let head = "# Every value of this cluster: `yours` is written in the spec, `default` is Windlass's, `derived` follows\n\
                # from other values, the bundle or the ground.\n";
    let mut value = shown(full);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("origins");
    }
    let comment = |path: &str| match origin_at(&full.origins, path) {
        Origin::User => "yours",
        Origin::Default => "default",
        Origin::Derived => "derived",
    };
    format!("{head}{}", yaml::document(&value, &comment))
}

/// The full spec without what must not be shown, kept in people's files or compared in plans: passwords in the
/// addresses of proxies. What renders machines needs the full spec itself.
pub fn redacted(full: &FullCluster) -> FullCluster {
    let mut full = full.clone();
    if let Some(proxy) = &mut full.proxy {
        proxy.http = without_password(&proxy.http);
        proxy.https = without_password(&proxy.https);
    }
    full
}

/// The full spec as a value, with `origins` for every single value.
pub fn shown(full: &FullCluster) -> Value {
    let mut full = redacted(full);
    let recorded = std::mem::take(&mut full.origins);
    let bare = serde_json::to_value(&full).unwrap_or_default();
    let mut paths = Vec::new();
    leaves(&bare, "", &mut paths);
    paths.retain(|path| path != "origins");
    full.origins =
        paths.into_iter().map(|path| (path.clone(), origin_at(&recorded, &path))).collect::<BTreeMap<_, _>>();
    serde_json::to_value(&full).unwrap_or_default()
}

/// A URL without the password in it.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let Some((user, host)) = rest.rsplit_once('@') else { return url.to_owned() };
    let Some((name, _)) = user.split_once(':') else { return url.to_owned() };
    format!("{scheme}://{name}:{HIDDEN}@{host}")
}

fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(key, value)| leaves(value, &join(path, key), found));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, item)| leaves(item, &format!("{path}[{index}]"), found));
        }
        _ => found.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests;
