//! Linking: what is the same is kept once, and symbols go, since the binary is copied into every machine's image.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    println!("cargo:rustc-link-arg-bins=-Wl,--strip-all");
}
