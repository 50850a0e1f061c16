//! Rebuilds the crate when a release manifest or a Go module of `bundles/` changes: the folder is embedded.

fn main() {
    println!("cargo::rerun-if-changed=../../bundles");
}
