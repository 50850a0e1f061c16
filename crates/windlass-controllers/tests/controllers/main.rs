//! Tests of the controllers against a real etcd and kube-apiserver, with machines in memory.

mod definitions;
mod life;
mod upstream;
mod world;
