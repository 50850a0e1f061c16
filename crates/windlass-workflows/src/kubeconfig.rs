//! Merging a cluster's kubeconfig into the user's own. Pure but for the file at the end.
//!
//! Inputs: the user's kubeconfig, the cluster's. Output: the merged document. Entries that were not made by Windlass for
//! this cluster are never overwritten; everything else in the file stays.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value, json};

use crate::folder::{FolderError, write_file};

/// Extension that marks entries as Windlass's, with the cluster's id.
const MARK: &str = "windlass.dev/cluster-id";

/// A kubeconfig could not be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A file is not a kubeconfig.
    #[error("`{path}` is not a kubeconfig: {cause}")]
    NotAKubeconfig {
        /// Which.
        path: Utf8PathBuf,
        /// Why.
        cause: String,
    },
    /// An entry of that name belongs to something else.
    #[error("the {list} entry `{name}` in `{path}` was not made for this cluster; it is not touched")]
    Foreign {
        /// `clusters`, `users` or `contexts`.
        list: &'static str,
        /// Its name.
        name: String,
        /// The file.
        path: Utf8PathBuf,
    },
    /// Reading or writing.
    #[error(transparent)]
    File(#[from] FolderError),
}

/// The lists of a kubeconfig and the field an entry's content is in.
const LISTS: [(&str, &str); 3] = [("clusters", "cluster"), ("users", "user"), ("contexts", "context")];

/// Merges `ours` into `theirs` and makes its context the current one.
pub fn merge(theirs: Value, ours: &Value, cluster_id: &str, path: &Utf8Path) -> Result<Value, MergeError> {
    let mut merged = match theirs {
        Value::Null => json!({"apiVersion": "v1", "kind": "Config"}),
        Value::Object(map) if map.get("kind").is_none_or(|kind| kind == "Config") => Value::Object(map),
        other => {
            let cause = format!("its kind is {}", other["kind"]);
            return Err(MergeError::NotAKubeconfig { path: path.to_owned(), cause });
        }
    };
    for (list, field) in LISTS {
        let wanted = ours[list].as_array().cloned().unwrap_or_default();
        let entries = list_of(&mut merged, list, path)?;
        for mut entry in wanted {
            mark(&mut entry[field], cluster_id);
            let name = entry["name"].clone();
            match entries.iter_mut().find(|old| old["name"] == name) {
                None => entries.push(entry),
                Some(old) if is_marked(&old[field], cluster_id) => *old = entry,
                Some(_) => {
                    let name = name.as_str().unwrap_or_default().to_owned();
                    return Err(MergeError::Foreign { list, name, path: path.to_owned() });
                }
            }
        }
    }
    merged["current-context"] = ours["current-context"].clone();
    Ok(merged)
}

/// The same kubeconfig with user names that are the cluster's own: `admin` becomes `lab-admin`, so that clusters side by
/// side do not claim one name.
pub fn qualified(mut ours: Value, cluster: &str) -> Value {
    let own = |name: &Value| json!(format!("{cluster}-{}", name.as_str().unwrap_or_default()));
    for user in ours["users"].as_array_mut().into_iter().flatten() {
        user["name"] = own(&user["name"]);
    }
    for context in ours["contexts"].as_array_mut().into_iter().flatten() {
        context["context"]["user"] = own(&context["context"]["user"]);
    }
    ours
}

/// Takes away what was merged for a cluster.
pub fn separate(theirs: Value, cluster_id: &str) -> Value {
    let mut rest = theirs;
    let mut gone = Vec::new();
    for (list, field) in LISTS {
        if let Some(entries) = rest[list].as_array_mut() {
            gone.extend(entries.iter().filter(|old| is_marked(&old[field], cluster_id)).map(|old| old["name"].clone()));
            entries.retain(|old| !is_marked(&old[field], cluster_id));
        }
    }
    if gone.contains(&rest["current-context"]) {
        rest["current-context"] = json!("");
    }
    rest
}

fn list_of<'a>(document: &'a mut Value, list: &str, path: &Utf8Path) -> Result<&'a mut Vec<Value>, MergeError> {
    let document = document.as_object_mut().map_or_else(
        || Err(MergeError::NotAKubeconfig { path: path.to_owned(), cause: "it is no mapping".into() }),
        Ok,
    )?;
    let entries = document.entry(list).or_insert_with(|| json!([]));
    if entries.is_null() {
        *entries = json!([]);
    }
    entries
        .as_array_mut()
        .ok_or_else(|| MergeError::NotAKubeconfig { path: path.to_owned(), cause: format!("`{list}` is no list") })
}

fn mark(content: &mut Value, cluster_id: &str) {
    if let Value::Object(content) = content {
        let extensions = json!([{"name": MARK, "extension": cluster_id}]);
        content.insert("extensions".to_owned(), extensions);
    }
}

fn is_marked(content: &Value, cluster_id: &str) -> bool {
    let extensions = content["extensions"].as_array();
    extensions.into_iter().flatten().any(|one| one["name"] == MARK && one["extension"] == cluster_id)
}

/// Merges into a file: atomically, mode 0600, with the file as it was kept beside it. Returns the backup, if there was a
/// file.
pub fn merge_into(
    path: &Utf8Path,
    ours: &str,
    cluster: &str,
    cluster_id: &str,
) -> Result<Option<Utf8PathBuf>, MergeError> {
    let before = match fs_err::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(FolderError::Read { path: path.to_owned(), source }.into()),
    };
    let theirs = parse(before.as_deref().unwrap_or_default(), path)?;
    let merged = merge(theirs, &qualified(parse(ours, path)?, cluster), cluster_id, path)?;
    let text = serde_saphyr::to_string(&merged)
        .map_err(|error| MergeError::NotAKubeconfig { path: path.to_owned(), cause: error.to_string() })?;
    let backup = before.map(|before| (Utf8PathBuf::from(format!("{path}.windlass-backup")), before));
    if let Some((backup, before)) = &backup {
        write_file(backup, before, 0o600)?;
    }
    write_file(path, &text, 0o600)?;
    Ok(backup.map(|(backup, _)| backup))
}

fn parse(text: &str, path: &Utf8Path) -> Result<Value, MergeError> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str::<Value>(text)
        .map_err(|error| MergeError::NotAKubeconfig { path: path.to_owned(), cause: error.to_string() })
        .map(|value| if value == Value::Object(Map::new()) { Value::Null } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(token: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "admin@lab",
            "clusters": [{"name": "lab", "cluster": {"server": "https://10.77.0.2:6443"}}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "admin@lab", "context": {"cluster": "lab", "user": "admin"}}],
        })
    }

    fn names(document: &Value, list: &str) -> Vec<String> {
        let entries = document[list].as_array().expect("a list");
        entries.iter().map(|entry| entry["name"].as_str().expect("a name").to_owned()).collect()
    }

    #[test]
    fn others_stay_and_ours_is_added_and_renewed() {
        let theirs = json!({
            "kind": "Config", "current-context": "work", "preferences": {"colors": true},
            "clusters": [{"name": "work", "cluster": {"server": "https://work.example"}}],
            "users": null,
        });
        let once = merge(theirs, &ours("one"), "id-1", "/k".into()).expect("merged");
        assert_eq!(names(&once, "clusters"), ["work", "lab"]);
        assert_eq!(once["preferences"]["colors"], true);
        assert_eq!(once["current-context"], "admin@lab");
        let twice = merge(once, &ours("two"), "id-1", "/k".into()).expect("merged again");
        assert_eq!(names(&twice, "users"), ["admin"]);
        assert_eq!(twice["users"][0]["user"]["token"], "two");
        let rest = separate(twice, "id-1");
        assert_eq!(names(&rest, "clusters"), ["work"]);
        assert_eq!(rest["current-context"], "");
    }

    #[test]
    fn an_entry_of_someone_else_is_never_overwritten() {
        let foreign = [
            json!({"clusters": [{"name": "lab", "cluster": {"server": "https://theirs"}}]}),
            json!({"users": [{"name": "admin", "user": {"token": "theirs"}}]}),
            json!({"contexts": [{"name": "admin@lab", "context": {"cluster": "x", "user": "y"}}]}),
            // An earlier cluster of the same name is someone else too.
            merge(Value::Null, &ours("old"), "id-0", "/k".into()).expect("merged"),
        ];
        for theirs in foreign {
            let error = merge(theirs.clone(), &ours("one"), "id-1", "/k".into()).expect_err("refused");
            assert!(matches!(error, MergeError::Foreign { .. }), "{theirs}: {error}");
        }
    }

    #[test]
    fn two_clusters_live_side_by_side() {
        let other: Value = serde_json::from_str(&ours("two").to_string().replace("lab", "dev")).expect("json");
        let once = merge(Value::Null, &qualified(ours("one"), "lab"), "id-1", "/k".into()).expect("merged");
        let both = merge(once, &qualified(other, "dev"), "id-2", "/k".into()).expect("merged");
        assert_eq!(names(&both, "users"), ["lab-admin", "dev-admin"]);
        assert_eq!(both["contexts"][1]["context"]["user"], "dev-admin");
    }

    #[test]
    fn what_is_no_kubeconfig_is_refused() {
        for theirs in [json!([1]), json!("text"), json!({"kind": "Pod"}), json!({"clusters": 3})] {
            let error = merge(theirs, &ours("one"), "id-1", "/k".into()).expect_err("refused");
            assert!(matches!(error, MergeError::NotAKubeconfig { .. }), "{error}");
        }
    }

    #[test]
    fn the_file_is_private_and_its_old_state_is_kept() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("folder");
        let path = Utf8PathBuf::from_path_buf(dir.path().join("config")).expect("utf-8");
        let text = serde_json::to_string(&ours("one")).expect("json");
        assert_eq!(merge_into(&path, &text, "lab", "id-1").expect("made"), None);
        let before = fs_err::read_to_string(&path).expect("written");
        let backup = merge_into(&path, &text, "lab", "id-1").expect("merged").expect("a backup");
        assert_eq!(fs_err::read_to_string(backup).expect("kept"), before);
        assert_eq!(fs_err::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }
}
