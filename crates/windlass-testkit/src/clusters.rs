//! Example documents, as people write them.
//!
//! Output: YAML text for `windlass_spec::load`; names are the caller's so that tests do not meet.

/// The smallest legal document.
pub fn smallest(name: &str) -> String {
    format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec:\n  provider: {{local: {{}}}}\n"
    )
}

/// Control planes and one group `md` of workers.
pub fn sized(name: &str, control_planes: u32, workers: u32) -> String {
    let mut text = smallest(name);
    text.push_str(&format!("  controlPlane: {{count: {control_planes}}}\n"));
    if workers > 0 {
        text.push_str(&format!("  workers:\n  - {{name: md, count: {workers}}}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sized_documents_say_their_numbers() {
        let text = sized("lab", 3, 2);
        assert!(text.contains("controlPlane: {count: 3}") && text.contains("{name: md, count: 2}"), "{text}");
        assert!(!sized("lab", 1, 0).contains("workers"));
    }
}
